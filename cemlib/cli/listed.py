"""The texts of `cemlib list`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cemlib.catalogue import WRITTEN_AS, Entry, entries, own_entries
from cemlib.cli.columns import aligned, figure
from cemlib.standing import FINISHED, Standing, standings

if TYPE_CHECKING:
    from cemlib.config import Study
    from cemlib.plan import Plan


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
