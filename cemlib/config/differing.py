"""The settings of a configuration that differ from the defaults."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cemlib.config.attacks import AnyAttack
from cemlib.config.base import nested, tagged
from cemlib.config.defences import DefenceConfig
from cemlib.config.study import Study, TrainConfig

# The sections by their key in a job's slice of the configuration (see `Study.train_slice`).
_SECTIONS: dict[str, Any] = {
    key: field.annotation
    for kind in (DefenceConfig, TrainConfig, Study)  # `model` and `train` are those of a study
    for key, field in kind.model_fields.items()
} | {"": Study, "defence": DefenceConfig, "attack": AnyAttack, "start": AnyAttack}


def differing(plain: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Return the settings that differ from the defaults, and the names of the chosen sections.

    Args:
        plain: Settings with every default filled in: a job's slice of a configuration, or one
            section. Keys that this version does not know count as differing.
        key: Key of the section; empty for a slice. An attack's is `attack`, wherever it stands.
    """
    kinds = list(nested(_SECTIONS.get(key)))
    kind, found = kinds[0] if kinds else None, dict[str, Any]()
    if len(kinds) > 1:
        tag = "name" if "name" in plain else "kind"
        found = {tag: plain[tag]} if tag in plain else {}
        kind = tagged(_SECTIONS[key]).get(str(plain.get(tag)))
    defaults = dict[str, Any]()
    if kind is not None:
        defaults = kind.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
    for name, value in plain.items():
        if name in defaults and defaults[name] == value:
            continue
        is_changes = key == "defence" and name in ("model", "train")  # of the study's sections
        if isinstance(value, Mapping) and not is_changes:
            inner = differing(value, name)
            found |= {name: inner} if inner else {}
        else:
            found[name] = value
    return found


def flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (dotted key, value as text) of a nested configuration; text stays as it is."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value)
