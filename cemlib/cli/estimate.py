"""`cemlib estimate`: the memory that a study will need, before it runs."""

import argparse
import sys
from collections.abc import Iterator

from cemlib.cli.options import plan_of, positive


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="cuda may be asked for without a graphics card here (default: %(default)s)",
    )
    parser.add_argument(
        "--slots",
        type=positive,
        default=1,
        metavar="N",
        help="jobs at the same time (default: %(default)s)",
    )
    parser.add_argument(
        "--brief", action="store_true", help="one line, and a warning if memory may be too little"
    )


def run_estimate(options: argparse.Namespace) -> Iterator[str]:
    """Print a row for every kind of job, or the peak alone; a warning goes to standard error."""
    plan = plan_of(options)
    from cemlib.jobs import find_device
    from cemlib.memory.estimate import estimate, line, table, warning

    device = find_device("auto").type if options.device == "auto" else options.device
    found = estimate(plan, device)
    if options.brief:
        yield line(found, options.slots)
    else:
        yield from table(found, options.slots)
    if told := warning(found, options.slots):
        print(told, file=sys.stderr)
