"""The commands that show results: `list` and `show`."""

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cemlib.cli.columns import aligned, figure
from cemlib.cli.options import plan_of
from cemlib.records.files import FileError, read_jsonl
from cemlib.records.provenance import PLUG_INS

if TYPE_CHECKING:
    from cemlib.config import Study
    from cemlib.study.job import AnyJob
    from cemlib.study.plan import Plan

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
        yield from _runs(plan_of(options))
        return
    for kind in (options.kind,) if options.kind else KINDS:
        lines = aligned([(f"  {name}", source, text) for name, source, text in entries(kind)])
        yield f"{kind} (in a configuration: {WRITTEN_AS[kind]})\n{lines}\n"


def _runs(plan: "Plan[Study]") -> Iterator[str]:
    """Yield the progress of each run of a study, the judge's last, and of the attacks on it."""
    from cemlib.study.split import trainings

    heads = ("run", "status", "epochs", "top-1", "attacks", "note")
    yield f"{plan.layout.root}"
    known = dict[Path, list[str]]()
    yield aligned([heads, *(_row(plan, *run, known) for run in trainings(plan))], right=(2, 3))


def _row(
    plan: "Plan[Study]", defence: str, seed: int, known: dict[Path, list[str]]
) -> tuple[str, ...]:
    from cemlib.config.study import JUDGE
    from cemlib.study.finished import standing
    from cemlib.study.split import train_job
    from cemlib.study.standing import ABSENT, DAMAGED, FINISHED, STALE

    folder = plan.layout.judge if defence == JUDGE else plan.layout.run(defence, seed)
    status, note, record = standing(train_job(plan, defence, seed), folder.metrics, known)
    lost = [file.name for file in folder.files() if not file.is_file()]
    if status == FINISHED and lost:
        status, note = DAMAGED, f"lacks {', '.join(lost)}, which `cemlib run` makes again"
    epochs = 0
    if folder.history.is_file():
        with suppress(FileError):  # the status tells of damage
            epochs = len(read_jsonl(folder.history))
        if status == ABSENT:
            age = time.time() - folder.history.stat().st_mtime
            status, note = RUNNING, f"last epoch {age:.0f} s ago"
    is_shown = status == FINISHED or (status == STALE and plan.stale)
    top1 = figure(record.get("top1") if is_shown else None)
    if defence == JUDGE:
        return defence, status, str(epochs), top1, "-", note
    attacks = _attack_counts(plan, defence, seed, known)
    return f"{defence}/seed{seed}", status, str(epochs), top1, attacks, note


def _attack_counts(
    plan: "Plan[Study]", defence: str, seed: int, known: dict[Path, list[str]]
) -> str:
    """Count the attacks on a run by status; one that is running has left no record."""
    from cemlib.study.finished import standing
    from cemlib.study.job import owners
    from cemlib.study.split import attack_job
    from cemlib.study.standing import FINISHED

    found = owners([attack_job(plan, defence, seed, [*plan.study.attacks])])
    counts = Counter(standing(job, record, known)[0] for record, job in found.items())
    others = [f"{count} {status}" for status, count in counts.items() if status != FINISHED]
    return ", ".join([f"{counts[FINISHED]}/{counts.total()}", *others])


def show(options: argparse.Namespace) -> Iterator[str]:
    """Show a run or an attack: settings, numbers, provenance, and whether its files are intact.

    A folder is shown as it is; a name stands for a result of the study.

    Raises:
        ConfigError: if there is none of that name.
        FileError: if it was made with other settings, data or code than the study's, unless --stale
            is given; after showing it, if one of its files is damaged or absent.
    """
    from cemlib.records.seal import RECORD
    from cemlib.study.finished import mismatches, refuse
    from cemlib.study.standing import find_folder, read_result
    from cemlib.study.systems import read_study

    folder, owned = find_folder(options.run, lambda: read_study(options.config, options.set)[1])
    stale = list(mismatches({record: owned[record] for record in [folder / RECORD]}))
    if not options.stale:
        refuse(stale)
    record, faults = read_result(folder)
    reason = f", {record['reason']}" if record["reason"] else ""
    head = [str(folder), f"status: {record['status']}{reason}", *(f"stale: {s}" for s in stale)]
    sections = _sections(record, options.all) | {
        "files": "\n".join(f"  {line}" for line in faults) or "  all as written",
        "attacks": _attack_table(sorted(folder.glob(f"attacks/*/{RECORD}")), owned, options.stale),
    }
    told = (f"{title}\n{text}" for title, text in sections.items() if text)
    yield "\n\n".join(["\n".join(head), *told])
    if faults:
        raise FileError("\n".join(faults))


def _sections(record: Mapping[str, Any], everything: bool) -> dict[str, str]:
    """Return the content of a record, with all settings or those that differ from the defaults."""
    from cemlib.config.differing import differing
    from cemlib.study.standing import numbers

    config = record["config"]
    # The defaults that `differing` knows are those of split inference.
    told = config if everything or "defence" not in config else differing(config)
    title = "all settings" if told == config else "settings that differ from the defaults"
    return {
        title: _yaml(told),
        "numbers": aligned([(f"  {name}", figure(value, 6)) for name, value in numbers(record)]),
        "provenance": _yaml(record["provenance"]),
    }


def _yaml(settings: Mapping[str, Any]) -> str:
    import yaml

    text = yaml.safe_dump(dict(settings), sort_keys=False, default_flow_style=None)
    return "\n".join(f"  {line}" for line in text.splitlines())


def _attack_table(
    records: list[Path], owned: "Mapping[Path, AnyJob | None]", shows_stale: bool
) -> str:
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
