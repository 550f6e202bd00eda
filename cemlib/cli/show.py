"""The command `show`."""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cemlib.cli.columns import aligned, figure
from cemlib.records.files import FileError, finite

if TYPE_CHECKING:
    from cemlib.study.inspection import Result
    from cemlib.study.job import AnyJob


def show(options: argparse.Namespace) -> Iterator[str]:
    """Show a run or an attack: settings, numbers, provenance, and whether its files are intact.

    A folder is shown as it is; a name stands for a result of the study.

    Raises:
        ConfigError: if there is none of that name.
        FileError: if it was made with other settings, data or code than the study's, unless --stale
            is given; after showing it, if one of its files is damaged or absent.
    """
    from cemlib.records.seal import RECORD
    from cemlib.study.finished import check, mismatches
    from cemlib.study.inspection import find_folder, read_result
    from cemlib.study.systems import read_study

    folder, owned = find_folder(options.run, lambda: read_study(options.config, options.set)[1])
    told = list(mismatches({record: owned[record] for record in [folder / RECORD]}))
    if not options.stale:
        check(told)
    result = read_result(folder)
    attacks = _attacks(result.attacks, owned, options.stale)
    yield _as_json(result, told) if options.json else _as_text(result, told, attacks, options.all)
    if result.faults:
        raise FileError("\n".join(result.faults))


def _as_json(result: "Result", stale: list[str]) -> str:
    from cemlib.config.differing import differing

    told = {
        "folder": str(result.folder),
        "stale": stale,
        "record": result.record,
        "differing": differing(result.record["config"]),
        "seals": result.seals,
        "attacks": [str(path.parent) for path in result.attacks],
    }
    return json.dumps(finite(told), indent=2)


def _as_text(result: "Result", stale: list[str], attacks: str, everything: bool) -> str:
    """Return a result as text, with all settings or those that differ from the defaults."""
    from cemlib.config.differing import differing

    config, status, reason = (result.record[key] for key in ("config", "status", "reason"))
    title = "all settings" if everything else "settings that differ from the defaults"
    sections = {
        title: _yaml(config if everything else differing(config)),
        "numbers": _pairs({name: figure(value, 6) for name, value in result.numbers.items()}),
        "provenance": _yaml(result.record["provenance"]),
        "seals": _seals(result.seals),
        "attacks": attacks,
    }
    head = f"{result.folder}\nstatus: {status}{f', {reason}' if reason else ''}"
    head = "\n".join([head, *(f"stale: {line}" for line in stale)])
    return "\n\n".join([head, *(f"{name}\n{text}" for name, text in sections.items() if text)])


def _yaml(settings: Mapping[str, Any]) -> str:
    import yaml

    text = yaml.safe_dump(dict(settings), sort_keys=False, default_flow_style=None)
    return "\n".join(f"  {line}" for line in text.splitlines())


def _pairs(facts: Mapping[str, str]) -> str:
    return aligned([(f"  {name}", fact) for name, fact in facts.items()]) if facts else ""


def _seals(seals: Mapping[str, str]) -> str:
    from cemlib.records.seal import RECORD
    from cemlib.study.inspection import WHOLE

    if set(seals.values()) == {WHOLE}:
        return f"  {RECORD} and {len(seals) - 1} files: {WHOLE}"
    return _pairs(seals)


def _attacks(records: list[Path], owned: "Mapping[Path, AnyJob | None]", shows_stale: bool) -> str:
    from cemlib.records.scores import ATTACK_SCORES, IDENTIFICATION
    from cemlib.study.finished import standing
    from cemlib.study.standing import STALE

    if not records:
        return ""
    scores = (*ATTACK_SCORES, IDENTIFICATION)
    rows = [("  attack", "status", *scores)]
    for path in records:
        status, _, found = standing(owned.get(path), path)
        is_shown = status != STALE or shows_stale
        numbers = (figure(found.get(score) if is_shown else None) for score in scores)
        rows.append((f"  {path.parent.name}", status, *numbers))
    return aligned(rows, right=range(2, len(rows[0])))
