"""The texts of `cemlib show`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cemlib.cli.columns import aligned, figure
from cemlib.config.differing import differing
from cemlib.files import finite
from cemlib.inspection import WHOLE, Result
from cemlib.scores import ATTACK_SCORES, IDENTIFICATION
from cemlib.seal import RECORD
from cemlib.study.standing import read_standing

_SCORES = (*ATTACK_SCORES, IDENTIFICATION)


def as_json(result: Result) -> str:
    """All of a result as one JSON object."""
    told = {
        "folder": str(result.folder),
        "record": result.record,
        "differing": differing(result.record["config"]),
        "seals": result.seals,
        "attacks": [str(path.parent) for path in result.attacks],
    }
    return json.dumps(finite(told), indent=2)


def as_text(result: Result, everything: bool) -> str:
    """A result for people; `everything` shows settings that are the defaults, too."""
    config = result.record["config"]
    settings = config if everything else differing(config)
    title = "all settings" if everything else "settings that differ from the defaults"
    sections = {
        title: _yaml(settings),
        "numbers": _pairs({name: figure(value, 6) for name, value in result.numbers.items()}),
        "provenance": _pairs(_provenance(result.record)),
        "seals": _seals(result.seals),
        "attacks": _attacks(result.attacks),
    }
    parts = [f"{name}\n{text}" for name, text in sections.items() if text]
    return "\n\n".join([_head(result), *parts])


def _head(result: Result) -> str:
    status, reason = result.record["status"], result.record["reason"]
    return f"{result.folder}\nstatus: {status}{f', {reason}' if reason else ''}"


def _yaml(settings: Mapping[str, Any]) -> str:
    text = yaml.safe_dump(dict(settings), sort_keys=False, default_flow_style=None)
    return "\n".join(f"  {line}" for line in text.splitlines())


def _pairs(facts: Mapping[str, str]) -> str:
    return aligned([(f"  {name}", fact) for name, fact in facts.items()]) if facts else ""


def _provenance(record: Mapping[str, Any]) -> dict[str, str]:
    """Return lines of what made the result."""
    found = record["provenance"]
    versions = (f"{name} {version}" for name, version in found["versions"].items())
    changed = " (with changes that were not committed)" if found["dirty"] else ""
    return {
        "commit": f"{found['commit']}{changed}",
        "fingerprint": found["fingerprint"],
        "versions": ", ".join(versions),
        "device": f"{found['device']}, {found['machine']}",
        "threads": str(found["threads"]),
        "seconds": figure(record["wall_seconds"]),
        "peak memory": f"{figure(record['peak_memory_mb'])} MiB",
    }


def _seals(seals: Mapping[str, str]) -> str:
    if set(seals.values()) == {WHOLE}:
        return f"  {RECORD} and {len(seals) - 1} files: {WHOLE}"
    return _pairs(seals)


def _attacks(records: list[Path]) -> str:
    if not records:
        return ""
    heads = ("  attack", "status", *_SCORES)
    return aligned([heads, *map(_attack, records)], right=range(2, len(heads)))


def _attack(path: Path) -> tuple[str, ...]:
    status, _, found = read_standing(path)
    return (f"  {path.parent.name}", status, *(figure(found.get(score)) for score in _SCORES))
