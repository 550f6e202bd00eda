"""The command `estimate`."""

import argparse
import sys
from collections.abc import Iterator

from cemlib.cli.columns import aligned
from cemlib.cli.options import plan_of


def estimate(options: argparse.Namespace) -> Iterator[str]:
    """Estimate how much time and memory a study will take.

    A few steps of each kind of job run on this machine and are extrapolated. Reports and uploads
    are left out.
    """
    plan = plan_of(options)
    from cemlib.search.estimate import estimate

    costs, threads, slots = estimate(plan, options.device, _say), plan.study.threads, options.slots
    heads = ("job", "jobs", "seconds each", "core hours", "peak MiB", "on the card")
    rows = [
        (
            cost.kind,
            str(cost.jobs),
            f"{cost.seconds:,.1f}",
            f"{cost.jobs * cost.seconds * threads / 3600:,.2f}",
            f"{cost.host:,.0f}",
            f"{cost.card:,.0f}" if cost.card else "-",
        )
        for cost in costs
    ]
    yield aligned([heads, *rows], right=range(1, len(heads)))
    hours = sum(cost.jobs * cost.seconds for cost in costs) / 3600
    host, card = (
        slots * max(peaks) for peaks in zip(*((c.host, c.card) for c in costs), strict=True)
    )
    on_card = f", {card:,.0f} MiB on the card" if card else ""
    yield (
        f"total by extrapolation: {threads * hours:,.2f} core hours; with --slots {slots}"
        f" {hours / slots:,.2f} hours and {host:,.0f} MiB at most{on_card}"
    )


def _say(kind: str) -> None:
    print(f"measuring: {kind}", file=sys.stderr, flush=True)
