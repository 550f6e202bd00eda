"""The command `estimate`."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cemlib.cli.columns import aligned
from cemlib.cli.options import plan_of

if TYPE_CHECKING:
    from cemlib.search.estimate import Row


def estimate(options: argparse.Namespace) -> Iterator[str]:
    """Say how much time and memory a study will take.

    A few steps of each kind of job run on this machine as it is, and are extrapolated; report and
    upload are left out.
    """
    plan = plan_of(options)
    from cemlib.search.estimate import estimate

    rows = estimate(plan, options.device, _say)
    yield _table(rows, plan.study.threads)
    yield _total(rows, options.slots, plan.study.threads)


def _say(kind: str) -> None:
    print(f"measuring: {kind}", file=sys.stderr, flush=True)


def _table(rows: Sequence["Row"], threads: int) -> str:
    heads = ("job", "jobs", "seconds each", "core hours", "peak MiB", "on the card")
    cells = [
        (
            row.kind,
            str(row.jobs),
            f"{row.seconds:,.1f}",
            f"{row.jobs * row.seconds * threads / 3600:,.2f}",
            f"{row.host:,.0f}",
            f"{row.card:,.0f}" if row.card else "-",
        )
        for row in rows
    ]
    return aligned([heads, *cells], right=range(1, len(heads)))


def _total(rows: Sequence["Row"], slots: int, threads: int) -> str:
    """Return hours and memory of a study whose jobs run in some slots at once."""
    hours = sum(row.jobs * row.seconds for row in rows) / 3600
    text = (
        f"total by extrapolation: {threads * hours:,.2f} core hours; with --slots {slots}"
        f" {hours / slots:,.2f} hours and {slots * max(row.host for row in rows):,.0f} MiB at most"
    )
    card = slots * max(row.card for row in rows)
    return f"{text}, {card:,.0f} MiB on the card" if card else text
