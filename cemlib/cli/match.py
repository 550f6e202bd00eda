"""The command `match`."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cemlib.cli.columns import aligned
from cemlib.cli.exits import FailedResultsError
from cemlib.cli.options import plan_of

if TYPE_CHECKING:
    from cemlib.search.match import Matched, Wanted


def match(options: argparse.Namespace) -> Iterator[str]:
    """Find the strength at which a defence reaches an accuracy, by a few trainings.

    Only validation images decide; no test image is used. If it was interrupted, run the same
    command again to continue. Exit code 3 says that a training diverged.

    Raises:
        ConfigError: if the defence has no such strength.
        FailedResultsError: at the end, if a training diverged.
    """
    study = plan_of(options).study
    from cemlib.search.match import Wanted, match

    wanted = Wanted(options.defence, options.key, options.accuracy, options.within)
    found = match(study, wanted, device=options.device, slots=options.slots, say=_progress)
    yield from _text(found, wanted)
    if any(score.failed for score in found.tried.values()):
        raise FailedResultsError


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _text(found: "Matched", wanted: "Wanted") -> Iterator[str]:
    """Yield what was tried, how the search ended, the section for a study, and the record."""
    import yaml

    from cemlib.search.match import remarks

    heads = (wanted.key, "accuracy [%]", "+- s.e.", "")
    rows = [
        (
            f"{value:g}",
            _points(score.accuracy),
            _points(score.standard_error),
            f"failed: {score.failed[0]}" if score.failed else "",
        )
        for value, score in sorted(found.tried.items())
    ]
    yield aligned([heads, *rows], right=range(3))
    yield from ("", *remarks(found, wanted), "")
    yield yaml.safe_dump(found.section, sort_keys=False, default_flow_style=None)
    yield str(found.record)


def _points(value: float) -> str:
    return "-" if value != value else f"{value:.2f}"
