"""A study of four clients with a few digits, small enough for every test."""

from pathlib import Path
from typing import Any

import yaml

from cemlib.config.federated import Federated
from cemlib.config.load import parse_any as parse

FILE = Path(__file__).parents[1] / "configs/tiny_federated.yaml"
TINY: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def tiny(**changes: Any) -> dict[str, Any]:
    """The tiny study with other sections merged in."""
    found = dict(TINY)
    for key, value in changes.items():
        old = found.get(key)
        merged = isinstance(old, dict) and key != "variants"
        found[key] = {**old, **value} if merged else value
    return found


def study_of(**changes: Any) -> Federated:
    """The same, checked."""
    return parse(tiny(**changes))
