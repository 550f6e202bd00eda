"""The settings that differ from the defaults, for people to read and to paste."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cemlib.config.attacks import AnyAttack
from cemlib.config.base import Section, tagged
from cemlib.config.data import AugmentConfig, DataConfig
from cemlib.config.defences import AnyChannel, AnyPenalty, DefenceConfig, PruningConfig
from cemlib.config.study import ModelConfig, Study, TrainConfig
from cemlib.config.surrogates import AnySurrogate

# By the key of a section in a job's slice of the configuration (see `Study.train_slice`).
_SECTIONS: dict[str, type[Section]] = {
    "": Study,
    "data": DataConfig,
    "model": ModelConfig,
    "train": TrainConfig,
    "augment": AugmentConfig,
    "defence": DefenceConfig,
    "pruning": PruningConfig,
}
_TAGS = {"surrogate": "name", "channel": "name", "penalty": "name", "attack": "kind"}
_UNIONS = {
    "surrogate": AnySurrogate,
    "channel": AnyChannel,
    "penalty": AnyPenalty,
    "attack": AnyAttack,
}


def named_sections(key: str) -> dict[str, type[Section]]:
    """Return the sections that may stand under `surrogate`, `channel`, `penalty` or `attack`."""
    return tagged(_UNIONS[key])


def differing(plain: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Return the settings that differ from the defaults, and the names of what was chosen.

    Args:
        plain: settings with every default filled in: a job's slice of a configuration, or one
            section. What this version does not know counts as differing.
        key: of the section; empty for a slice. An attack's is `attack`, wherever it stands.
    """
    tag = _TAGS.get(key, "")
    defaults = _defaults(key, plain.get(tag))
    found: dict[str, Any] = {tag: plain[tag]} if tag in plain else {}
    for name, value in plain.items():
        if name in defaults and defaults[name] == value:
            continue
        if isinstance(value, Mapping):
            inner = differing(value, "attack" if name == "start" else name)
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


def _defaults(key: str, tag: str | None) -> dict[str, Any]:
    kind = named_sections(key).get(str(tag)) if key in _TAGS else _SECTIONS.get(key)
    if kind is None:
        return {}
    return kind.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
