"""`cemlib estimate`: the memory that a study will need, before it runs."""

import argparse
import sys
from collections.abc import Iterator

from cemlib.cli.options import add_slots, plan_of


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="cuda may be asked for without a graphics card here (default: %(default)s)",
    )
    add_slots(parser)


def run_estimate(options: argparse.Namespace) -> Iterator[str]:
    """Print a row for every kind of job and the peak; a warning goes to standard error."""
    plan = plan_of(options)
    from cemlib.jobs import find_device
    from cemlib.memory.estimate import estimate, table, warning

    device = find_device("auto").type if options.device == "auto" else options.device
    found = estimate(plan, device)
    yield from table(found, options.slots)
    if told := warning(found, options.slots):
        print(told, file=sys.stderr)
