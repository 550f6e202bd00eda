"""Everything that a configuration can name, each with its meaning and the file that computes it.

Names come from the rooms' plain dicts, meanings from the docstrings of the configuration's sections
or, where a name has no section of its own, of what it stands for: there is no second list.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from cemlib.config.base import Section
from cemlib.config.defences import DefenceConfig
from cemlib.config.differing import differing, named_sections
from cemlib.config.study import Study
from cemlib.records.provenance import PACKAGE, PLUG_INS, members

DEFENCES = "defences"
KINDS = (DEFENCES, *PLUG_INS)
_KEYS = {  # kind: key of its sections
    "surrogates": "surrogate",
    "channels": "channel",
    "penalties": "penalty",
    "attacks": "attack",
}
WRITTEN_AS = {  # kind: where its names stand in a configuration
    DEFENCES: "defences.<name>.<key>",
    "surrogates": "defences.<name>.surrogate",
    "channels": "defences.<name>.channel",
    "penalties": "defences.<name>.penalty",
    "models": "model.name",
    "attacks": "attacks.<name>.kind",
    "data": "data.source",
}


class Entry(NamedTuple):
    """A name, where it comes from, and what it means, in a line."""

    name: str
    source: str
    meaning: str


def entries(kind: str) -> list[Entry]:
    """Return what there is of one of `KINDS`; `defences` are the keys of a defence."""
    if kind == DEFENCES:
        return _keys_of_a_defence()
    sections = named_sections(_KEYS[kind]) if kind in _KEYS else {}
    return [
        Entry(name, _shown(member.file), _first_line(sections.get(name, member.docstring)))
        for name, member in members(kind).items()
    ]


def own_entries(study: Study, kind: str) -> list[Entry]:
    """Return a study's defences or attacks by name, with what differs from the defaults.

    The source of an attack is its kind, that of a defence its surrogate.
    """
    if kind == "attacks":
        attacks = {name: section.plain() for name, section in study.attacks.items()}
        return [Entry(n, a.pop("kind"), _flow(a)) for n, a in _differing(attacks, "attack")]
    defences = {name: section.plain() for name, section in study.defences.items()}
    found = _differing(defences, "defence")
    return [Entry(n, _surrogate(study, n), _flow(settings)) for n, settings in found]


def _keys_of_a_defence() -> list[Entry]:
    source = _shown(PACKAGE / "config" / "defences.py")
    fields = DefenceConfig.model_fields.items()
    return [Entry(name, source, field.description or "") for name, field in fields]


def _surrogate(study: Study, name: str) -> str:
    surrogate = study.defences[name].surrogate
    return "no surrogate" if surrogate is None else surrogate.name


def _differing(sections: dict[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, differing(plain, key)) for name, plain in sections.items()]


def _flow(settings: dict[str, Any]) -> str:
    """Return settings as one line of YAML."""
    text = yaml.safe_dump(settings, default_flow_style=True, sort_keys=False, width=10**6)
    return text.strip() if settings else "the defaults"


def _shown(file: Path) -> str:
    return file.relative_to(PACKAGE.parent).as_posix()


def _first_line(documented: type[Section] | str) -> str:
    text = documented if isinstance(documented, str) else documented.__doc__ or ""
    line = text.strip().split("\n")[0]
    return re.sub(r" \(see [^)]*\)", "", line)  # said to readers of the code
