"""The command `show`."""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cemlib.cli.columns import aligned, figure
from cemlib.records.files import FileError, finite

if TYPE_CHECKING:
    from cemlib.study.job import AnyJob


def show(options: argparse.Namespace) -> Iterator[str]:
    """Show a run or an attack: settings, numbers, provenance, and whether its files are intact.

    A folder is shown as it is; a name stands for a result of the study.

    Raises:
        ConfigError: if there is none of that name.
        FileError: if it was made with other settings, data or code than the study's, unless --stale
            is given; after showing it, if one of its files is damaged or absent.
    """
    from cemlib.config.differing import differing
    from cemlib.records.seal import RECORD
    from cemlib.study.finished import check, mismatches
    from cemlib.study.inspection import find_folder, read_result
    from cemlib.study.systems import read_study

    folder, owned = find_folder(options.run, lambda: read_study(options.config, options.set)[1])
    stale = list(mismatches({record: owned[record] for record in [folder / RECORD]}))
    if not options.stale:
        check(stale)
    record, faults = read_result(folder)
    attacks = sorted(folder.glob(f"attacks/*/{RECORD}"))
    shown = {
        "folder": str(folder),
        "stale": stale,
        "record": record,
        "differing": differing(record["config"]),
        "faults": faults,
        "attacks": [str(path.parent) for path in attacks],
    }
    if options.json:
        yield json.dumps(finite(shown), indent=2)
    else:
        yield _as_text(shown, _attacks(attacks, owned, options.stale), options.all)
    if faults:
        raise FileError("\n".join(faults))


def _as_text(shown: Mapping[str, Any], attacks: str, everything: bool) -> str:
    """Return a result as text, with all settings or those that differ from the defaults."""
    from cemlib.study.inspection import numbers

    record = shown["record"]
    title = "all settings" if everything else "settings that differ from the defaults"
    found = {name: figure(value, 6) for name, value in numbers(record).items()}
    sections = {
        title: _yaml(record["config"] if everything else shown["differing"]),
        "numbers": aligned([(f"  {name}", value) for name, value in found.items()]),
        "provenance": _yaml(record["provenance"]),
        "files": "\n".join(f"  {line}" for line in shown["faults"]) or "  all as written",
        "attacks": attacks,
    }
    reason = f", {record['reason']}" if record["reason"] else ""
    head = f"{shown['folder']}\nstatus: {record['status']}{reason}"
    head = "\n".join([head, *(f"stale: {line}" for line in shown["stale"])])
    return "\n\n".join([head, *(f"{name}\n{text}" for name, text in sections.items() if text)])


def _yaml(settings: Mapping[str, Any]) -> str:
    import yaml

    text = yaml.safe_dump(dict(settings), sort_keys=False, default_flow_style=None)
    return "\n".join(f"  {line}" for line in text.splitlines())


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
