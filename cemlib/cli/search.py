"""`cemlib match`: the search for the strength at which a defence reaches an accuracy."""

import argparse
import sys
from collections.abc import Iterator

from cemlib.cli.exits import DIVERGED_NOTE
from cemlib.cli.options import (
    Commands,
    add_command,
    add_config,
    add_device,
    add_slots,
    plan_of,
    positive,
)
from cemlib.errors import FailedResultsError

VALIDATION = (
    "Everything is measured on validation images; no test image is used. The same command goes on"
    " where a killed one was."
)


def add_match(commands: Commands) -> None:
    """Add the subcommand to the command line."""
    text = "find the strength at which a defence reaches an accuracy, by a few runs"
    parser = add_command(commands, "match", text, run_match, VALIDATION)
    parser.epilog = DIVERGED_NOTE
    _add_runs(parser)
    parser.add_argument(
        "--defence", required=True, metavar="NAME", help="a defence of the study, or a sweep"
    )
    parser.add_argument(
        "--key",
        default="lambda",
        metavar="KEY",
        help="its strength, a key that sweeps can vary (default: %(default)s)",
    )
    parser.add_argument(
        "--accuracy",
        type=percent,
        required=True,
        metavar="PERCENT",
        help="validation accuracy to reach, mean over the seeds",
    )
    parser.add_argument(
        "--within",
        type=percent,
        default=0.3,
        metavar="POINTS",
        help="how near is near enough (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs",
        type=positive,
        metavar="N",
        help="scale the schedule to so many epochs (default: the study's)",
    )


def run_match(options: argparse.Namespace) -> Iterator[str]:
    """Find a strength.

    Raises:
        ConfigError: if the defence has no such strength.
        FailedResultsError: after all, if a run diverged.
    """
    study = plan_of(options).study
    from cemlib.cli import searched
    from cemlib.search.match import Wanted, match

    wanted = Wanted(
        defence=options.defence,
        key=options.key,
        accuracy=options.accuracy,
        within=options.within,
        seeds=tuple(options.seed or study.seeds),
        epochs=options.epochs or study.train.epochs,
    )
    found = match(study, wanted, device=options.device, slots=options.slots, say=_progress)
    yield from searched.matched(found, wanted)
    yield str(found.record)
    if found.failed:
        raise FailedResultsError


def percent(text: str) -> float:
    """Read a number above 0 and up to 100, as the type of an option."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and up to 100")
    return value


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _add_runs(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument(
        "--seed",
        type=int,
        action="append",
        metavar="N",
        help="a seed of the runs; may be repeated (default: those of the study)",
    )
    add_device(parser)
    add_slots(parser)
