"""The command `list`."""

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.cli.columns import aligned, figure
from cemlib.cli.options import plan_of
from cemlib.records.provenance import PLUG_INS

if TYPE_CHECKING:
    from cemlib.config import Study
    from cemlib.study.plan import Plan

RUNS, RUNNING = "runs", "running"
KINDS = ("defences", *PLUG_INS)


def names(options: argparse.Namespace) -> Iterator[str]:
    """List the names that a configuration can use, or the runs of a study.

    A run is finished, failed (it diverged), stale (made with other settings, data or code than the
    study's, as its note says), damaged (its record is not as it was written), running (begun and
    not finished; it may have been stopped) or absent. The accuracy of a stale run is shown only
    with --stale.
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
    from cemlib.records.files import FileError, read_jsonl
    from cemlib.study.finished import standing
    from cemlib.study.split import train_job
    from cemlib.study.standing import ABSENT, FINISHED, STALE

    folder = plan.layout.judge if defence == JUDGE else plan.layout.run(defence, seed)
    status, note, record = standing(train_job(plan, defence, seed), folder.metrics, known)
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
    attacks = _attacks(plan, defence, seed, known)
    return f"{defence}/seed{seed}", status, str(epochs), top1, attacks, note


def _attacks(plan: "Plan[Study]", defence: str, seed: int, known: dict[Path, list[str]]) -> str:
    """Count the attacks on a run by status; one that is running has left no record."""
    from cemlib.study.finished import standing
    from cemlib.study.job import owners
    from cemlib.study.split import attack_job
    from cemlib.study.standing import FINISHED

    found = owners([attack_job(plan, defence, seed, [*plan.study.attacks])])
    counts = Counter(standing(job, record, known)[0] for record, job in found.items())
    others = [f"{count} {status}" for status, count in counts.items() if status != FINISHED]
    return ", ".join([f"{counts[FINISHED]}/{counts.total()}", *others])
