"""The commands that show results: `list` and `show`."""

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cemlib.cli.columns import aligned, number_text
from cemlib.records.files import FileError, read_jsonl
from cemlib.records.layout import RunFolder, run_of
from cemlib.records.provenance import PLUG_INS
from cemlib.records.scores import ATTACK_SCORES, IDENTIFICATION
from cemlib.records.seal import RECORD

if TYPE_CHECKING:
    from cemlib.study.finished import Known
    from cemlib.study.job import AnyJob

RUNS, RUNNING = "runs", "running"
KINDS = ("defences", *PLUG_INS)


def names(options: argparse.Namespace) -> Iterator[str]:
    """List the names that a configuration can use, or the runs of a study.

    A run is finished, failed (it diverged), stale (made with other settings, data or code than the
    study's, as its note says), damaged (its record is not as it was written, or another file is
    lost), running (begun and not finished; it may have been stopped) or absent. The accuracy of a
    stale run is shown only with --stale.
    """
    from cemlib.study.catalogue import WRITTEN_AS, entries

    if options.kind == RUNS:
        yield from _runs(options)
        return
    for kind in (options.kind,) if options.kind else KINDS:
        lines = aligned([(f"  {name}", source, text) for name, source, text in entries(kind)])
        yield f"{kind} (in a configuration: {WRITTEN_AS[kind]})\n{lines}\n"


def _runs(options: argparse.Namespace) -> Iterator[str]:
    """Yield the progress of each run of a study of any system, and of the attacks on it."""
    from cemlib.study.finished import Known, status_of
    from cemlib.study.job import owners
    from cemlib.study.status import name_of
    from cemlib.study.systems import read_study

    plan, jobs = read_study(options.config, options.set)
    known, attacks = Known(), defaultdict[Path, Counter[str]](Counter)
    owned = {record: job for record, job in owners(jobs).items() if record.name == RECORD}
    for record, job in owned.items():
        if (run := run_of(record.parent)) != record.parent:
            attacks[run][status_of(job, record, known)[0]] += 1
    rows = [("run", "status", "epochs", "top-1", "attacks", "note")]
    for record, job in owned.items():
        if run_of(record.parent) == record.parent:
            status, epochs, top1, note = _progress(job, record, known, options.stale)
            counts = _counts(attacks[record.parent])
            rows.append((name_of(plan.layout.root, record), status, epochs, top1, counts, note))
    yield f"{plan.layout.root}"
    yield aligned(rows, right=(2, 3))


def _progress(
    job: "AnyJob", record: Path, known: "Known", shows_stale: bool
) -> tuple[str, str, str, str]:
    """Return the status of a run, the epochs so far, the accuracy, and a note."""
    from cemlib.study.finished import beside, status_of
    from cemlib.study.status import ABSENT, DAMAGED, FINISHED, STALE

    status, note, found = status_of(job, record, known)
    lost = [file.name for file in beside(job, record) if not file.is_file()]
    if status == FINISHED and lost:
        status, note = DAMAGED, f"lacks {', '.join(lost)}, which `cemlib run` makes again"
    epochs, history = 0, RunFolder(record.parent).history
    if history.is_file():
        with suppress(FileError):  # the status tells of damage
            epochs = len(read_jsonl(history))
        if status == ABSENT:
            age = time.time() - history.stat().st_mtime
            status, note = RUNNING, f"last epoch {age:.0f} s ago"
    is_shown = status == FINISHED or (status == STALE and shows_stale)
    top1 = found.get("top1", found.get("iel_top1")) if is_shown else None  # `iel_top1`: labelling
    return status, str(epochs), number_text(top1), note


def _counts(found: "Counter[str]") -> str:
    """Return how many attacks have finished, and the others by status; a running one is absent."""
    from cemlib.study.status import FINISHED

    if not found:
        return "-"
    others = [f"{count} {status}" for status, count in found.items() if status != FINISHED]
    return ", ".join([f"{found[FINISHED]}/{found.total()}", *others])


def show(options: argparse.Namespace) -> Iterator[str]:
    """Show a run or an attack: settings, numbers, provenance, and whether its files are intact.

    A folder is shown as it is; a name stands for a result of the study.

    Raises:
        ConfigError: if there is none of that name.
        FileError: if it was made with other settings, data or code than the study's, unless --stale
            is given; after showing it, if one of its files is damaged or absent.
    """
    from cemlib.study.finished import mismatches, refuse
    from cemlib.study.status import find_folder, read_result
    from cemlib.study.systems import read_study

    folder, owned = find_folder(options.run, lambda: read_study(options.config, options.set)[1])
    stale = list(mismatches({folder / RECORD: owned[folder / RECORD]}))
    if not options.stale:
        refuse(stale)
    record, faults = read_result(folder)
    reason = f", {record['reason']}" if record["reason"] else ""
    head = [str(folder), f"status: {record['status']}{reason}", *(f"stale: {s}" for s in stale)]
    sections = _sections(record, options.all) | {
        "files": "\n".join(f"  {line}" for line in faults) or "  all as written",
        "attacks": _attack_table(folder, owned, options.stale),
    }
    told = (f"{title}\n{text}" for title, text in sections.items() if text)
    yield "\n\n".join(["\n".join(head), *told])
    if faults:
        raise FileError("\n".join(faults))


def _sections(record: Mapping[str, Any], everything: bool) -> dict[str, str]:
    """Return the content of a record, with all settings or those that differ from the defaults."""
    from cemlib.config.differing import differing
    from cemlib.study.status import numbers

    config = record["config"]
    # The defaults that `differing` knows are those of split inference.
    told = config if everything or "defence" not in config else differing(config)
    title = "all settings" if told == config else "settings that differ from the defaults"
    return {
        title: _yaml(told),
        "numbers": aligned(
            [(f"  {name}", number_text(value, 6)) for name, value in numbers(record)]
        ),
        "provenance": _yaml(record["provenance"]),
    }


def _yaml(settings: Mapping[str, Any]) -> str:
    import yaml

    text = yaml.safe_dump(dict(settings), sort_keys=False, default_flow_style=None)
    return "\n".join(f"  {line}" for line in text.splitlines())


def _attack_table(folder: Path, owned: "Mapping[Path, AnyJob | None]", shows_stale: bool) -> str:
    from cemlib.study.finished import Known, status_of
    from cemlib.study.status import STALE

    records = sorted(p for p in owned if p.parent.parent == folder / "attacks" and p.is_file())
    if not records:
        return ""
    scores = (*ATTACK_SCORES, IDENTIFICATION)
    known, rows = Known(), [("  attack", "status", *scores)]
    for path in records:
        status, _, found = status_of(owned.get(path), path, known)
        is_shown = status != STALE or shows_stale
        numbers = (number_text(found.get(score) if is_shown else None) for score in scores)
        rows.append((f"  {path.parent.name}", status, *numbers))
    return aligned(rows, right=range(2, len(rows[0])))
