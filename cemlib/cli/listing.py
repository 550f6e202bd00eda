"""The command `list`."""

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.cli.columns import aligned, figure
from cemlib.cli.options import DEFAULT_CONFIG, plan_of

if TYPE_CHECKING:
    from cemlib.config import Study
    from cemlib.study.catalogue import Entry
    from cemlib.study.plan import Plan

RUNS, RUNNING = "runs", "running"
OWN = ("defences", "attacks")  # what a study names itself
# A test compares them with the catalogue, which takes its time to import.
KINDS = ("defences", "surrogates", "channels", "penalties", "models", "attacks", "data")


def names(options: argparse.Namespace) -> Iterator[str]:
    """List what a configuration can name, or the runs of a study.

    A run is finished, failed (it diverged), stale (of other settings, data or code than the
    study's, as its note says), damaged (its record is not as it was written), running (begun and
    not finished: nothing tells a job that was stopped from a slow one) or absent. Only --stale
    shows the accuracy of a stale one.
    """
    from cemlib.study.catalogue import WRITTEN_AS, entries, own_entries

    if options.kind == RUNS:
        options.config = options.config or DEFAULT_CONFIG
        yield from _runs(plan_of(options))
        return
    study = plan_of(options).study if options.config else None
    for kind in (options.kind,) if options.kind else KINDS:
        yield _section(f"{kind} (in a configuration: {WRITTEN_AS[kind]})", entries(kind))
        if study is not None and kind in OWN:
            yield _section(f"{kind} of {study.experiment}", own_entries(study, kind))


def _section(title: str, found: "list[Entry]") -> str:
    lines = aligned([(f"  {entry.name}", entry.source, entry.meaning) for entry in found])
    return f"{title}\n{lines}\n"


def _runs(plan: "Plan[Study]") -> Iterator[str]:
    """Yield how far each run of a study is, the judge's last, and the attacks on it."""
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
    from cemlib.study.standing import ABSENT, FINISHED, STALE

    folder = plan.layout.judge if defence == JUDGE else plan.layout.run(defence, seed)
    status, note, record = standing(train_job(plan, defence, seed), folder.metrics, known)
    if status == ABSENT:
        status, note = _progress(folder.history)
    name = defence if defence == JUDGE else f"{defence}/seed{seed}"
    is_shown = status == FINISHED or (status == STALE and plan.stale)
    top1 = figure(record.get("top1") if is_shown else None)
    attacks = "-" if defence == JUDGE else _attacks(plan, defence, seed, known)
    return name, status, str(_epochs(folder.history)), top1, attacks, note


def _progress(history: Path) -> tuple[str, str]:
    from cemlib.study.standing import ABSENT

    if not history.is_file():
        return ABSENT, ""
    return RUNNING, f"last epoch {time.time() - history.stat().st_mtime:.0f} s ago"


def _attacks(plan: "Plan[Study]", defence: str, seed: int, known: dict[Path, list[str]]) -> str:
    """Return how many attacks on a run have which status: one under way has left no record."""
    from cemlib.study.finished import standing
    from cemlib.study.job import owners
    from cemlib.study.split import attack_job
    from cemlib.study.standing import FINISHED

    found = owners([attack_job(plan, defence, seed, [*plan.study.attacks])])
    counts = Counter(standing(job, record, known)[0] for record, job in found.items())
    others = [f"{count} {status}" for status, count in counts.items() if status != FINISHED]
    return ", ".join([f"{counts[FINISHED]}/{counts.total()}", *others])


def _epochs(history: Path) -> int:
    from cemlib.records.files import FileError, read_jsonl

    try:
        return len(read_jsonl(history)) if history.is_file() else 0
    except FileError:  # the status says what is damaged
        return 0
