"""What of some settings differs from the defaults, for people to read and to paste."""

from collections.abc import Mapping
from typing import Any, get_args

from cemlib.config.attacks import AnyAttack
from cemlib.config.base import Section
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
    """Every section that may stand under a key (`surrogate`, `channel`, `penalty`, `attack`)."""
    kinds: tuple[type[Section], ...] = get_args(get_args(_UNIONS[key])[0])
    return {kind.model_fields[_TAGS[key]].default: kind for kind in kinds}


def differing(plain: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Settings that differ from the defaults, and the names of what was chosen.

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


def _defaults(key: str, tag: str | None) -> dict[str, Any]:
    kind = named_sections(key).get(str(tag)) if key in _TAGS else _SECTIONS.get(key)
    if kind is None:
        return {}
    return kind.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
