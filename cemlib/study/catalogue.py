"""Everything that a configuration can name, each with its meaning and the file that computes it.

Names come from the dicts of the plug-in packages. Meanings come from the docstrings of the
configuration's sections or, for a name without a section, of the class or function it stands for.
"""

import re
from pathlib import Path
from typing import Any

from cemlib.config.attacks import AnyAttack
from cemlib.config.base import Section, tagged
from cemlib.config.defences import AnyChannel, AnyPenalty, DefenceConfig
from cemlib.config.surrogates import AnySurrogate
from cemlib.records.provenance import PACKAGE, members

WRITTEN_AS = {  # kind: where its names stand in a configuration
    "defences": "defences.<name>.<key>",
    "surrogates": "defences.<name>.surrogate",
    "channels": "defences.<name>.channel",
    "penalties": "defences.<name>.penalty",
    "models": "model.name",
    "attacks": "attacks.<name>.kind",
    "data": "data.source",
}
_SECTIONS: dict[str, Any] = {  # kind: the sections of its names
    "surrogates": AnySurrogate,
    "channels": AnyChannel,
    "penalties": AnyPenalty,
    "attacks": AnyAttack,
}


def entries(kind: str) -> list[tuple[str, str, str]]:
    """Return name, source and meaning of each member of a kind; for `defences`, of each key."""
    if kind == "defences":
        source = _shown(PACKAGE / "config" / "defences.py")
        fields = DefenceConfig.model_fields.items()
        return [(name, source, field.description or "") for name, field in fields]
    sections = tagged(_SECTIONS[kind]) if kind in _SECTIONS else {}
    return [
        (name, _shown(member.file), _first_line(sections.get(name, member.docstring)))
        for name, member in members(kind).items()
    ]


def _shown(file: Path) -> str:
    return file.relative_to(PACKAGE.parent).as_posix()


def _first_line(documented: type[Section] | str) -> str:
    text = documented if isinstance(documented, str) else documented.__doc__ or ""
    line = text.strip().split("\n")[0]
    return re.sub(r" \(see [^)]*\)", "", line)  # a hint for readers of the code
