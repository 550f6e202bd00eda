"""The texts of `cemlib list`."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.catalogue import WRITTEN_AS, Entry, entries, own_entries
from cemlib.cli.columns import aligned, figure
from cemlib.config.study import JUDGE
from cemlib.files import FileError, read_jsonl
from cemlib.layout import KNOWLEDGES, RunFolder
from cemlib.study.standing import ABSENT, FINISHED, read_standing

if TYPE_CHECKING:
    from cemlib.config import Study
    from cemlib.plan import Plan


RUNNING = "running"


@dataclass(frozen=True)
class Standing:
    """How far one run is, and the attacks on it.

    Attributes:
        defence: Its defence, or the judge.
        seed: Its seed.
        status: `finished`, `failed` (diverged), `damaged` (not as it was written), `running` (begun
            and not finished; nothing tells a job that was stopped from a slow one) or `absent`.
        epochs: Finished epochs.
        top1: Accuracy, of a finished run.
        attacks: How many of the study's attacks on it have which status, as far as files say:
            one that is being carried out has left none.
        note: The reason of a failure or damage, or how long ago the last epoch ended.
    """

    defence: str
    seed: int
    status: str
    epochs: int
    top1: float | None
    attacks: dict[str, int]
    note: str

    @property
    def name(self) -> str:
        """What messages call the run."""
        return self.defence if self.defence == JUDGE else f"{self.defence}/seed{self.seed}"


def standings(plan: "Plan", defence: str | None = None) -> Iterator[Standing]:
    """Every run of a study, the judge's last, or those of one defence.

    Raises:
        ConfigError: if there is no such defence.
    """
    for name, seed in plan.trainings(defence):
        folder = plan.folder(name, seed)
        status, note, record = read_standing(folder.metrics)
        if status == ABSENT:
            status, note = _progress(folder.history)
        top1 = record.get("top1") if status == FINISHED else None
        attacks = _attacks(plan, folder) if name in plan.study.defences else {}
        yield Standing(name, seed, status, _epochs(folder), top1, attacks, note)


def names(kind: str, study: "Study | None") -> Iterator[str]:
    """What there is of a kind, and, given a study, what it calls so itself."""
    yield _section(f"{kind} (in a configuration: {WRITTEN_AS[kind]})", entries(kind))
    if study is not None:
        yield _section(f"{kind} of {study.experiment}", own_entries(study, kind))


def runs(plan: "Plan") -> Iterator[str]:
    """How far each run of a study is, and the attacks on it."""
    heads = ("run", "status", "epochs", "top-1", "attacks", "note")
    rows = [_row(standing) for standing in standings(plan)]
    yield f"{plan.layout.root}"
    yield aligned([heads, *rows], right=(2, 3))


def _section(title: str, found: list[Entry]) -> str:
    lines = aligned([(f"  {entry.name}", entry.source, entry.meaning) for entry in found])
    return f"{title}\n{lines}\n"


def _row(standing: Standing) -> tuple[str, ...]:
    counts = standing.attacks
    wanted, other = sum(counts.values()), {k: n for k, n in counts.items() if k != FINISHED}
    details = [f"{count} {status}" for status, count in other.items()]
    attacks = ", ".join([f"{counts.get(FINISHED, 0)}/{wanted}", *details]) if wanted else "-"
    return (
        standing.name,
        standing.status,
        str(standing.epochs),
        figure(standing.top1),
        attacks,
        standing.note,
    )


def _progress(history: Path) -> tuple[str, str]:
    if not history.is_file():
        return ABSENT, ""
    return RUNNING, f"last epoch {time.time() - history.stat().st_mtime:.0f} s ago"


def _attacks(plan: "Plan", run: RunFolder) -> dict[str, int]:
    names = ((attack, knowledge) for attack in plan.study.attacks for knowledge in KNOWLEDGES)
    return dict(Counter(read_standing(run.attack(*name).metrics)[0] for name in names))


def _epochs(folder: RunFolder) -> int:
    try:
        return len(read_jsonl(folder.history)) if folder.history.is_file() else 0
    except FileError:  # the status says what is damaged
        return 0
