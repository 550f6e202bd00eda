"""The smallest labelling study that has everything: seconds, its numbers mean nothing."""

from pathlib import Path
from typing import Any

import yaml

from cemlib.config.labelling import LabellingStudy
from cemlib.config.load import parse_any as parse
from cemlib.study.plan import Plan

FILE = Path(__file__).parents[1] / "configs/tiny_pctc.yaml"
TINY: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def changed(**paths: Any) -> dict[str, Any]:
    """The study as plain dicts with some keys replaced, `__` for a dot."""
    raw: dict[str, Any] = {k: dict(v) if isinstance(v, dict) else v for k, v in TINY.items()}
    for path, value in paths.items():
        section, _, key = path.partition("__")
        (raw[section] if key else raw)[key or section] = value
    return raw


def tiny(**paths: Any) -> LabellingStudy:
    """The same, checked."""
    return parse(changed(**paths))


def plan_in(folder: Path, **sections: Any) -> Plan:
    """The study with its results in a folder."""
    return Plan(tiny(results=str(folder), **sections))
