"""The command `match`."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cemlib.cli.columns import aligned, figure
from cemlib.cli.exits import FailedResultsError
from cemlib.cli.options import plan_of

if TYPE_CHECKING:
    from cemlib.search.match import Matched, Wanted


def match(options: argparse.Namespace) -> Iterator[str]:
    """Find the strength at which a defence reaches an accuracy, by a few runs.

    Everything is measured on validation images; no test image is used. The same command continues
    a killed one. Exit code 3 says that a run diverged.

    Raises:
        ConfigError: if the defence has no such strength.
        FailedResultsError: after all, if a run diverged.
    """
    study = plan_of(options).study
    from cemlib.search.match import Wanted, match

    wanted = Wanted(
        defence=options.defence,
        key=options.key,
        accuracy=options.accuracy,
        within=options.within,
        seeds=study.seeds,
        epochs=options.epochs or study.train.epochs,
    )
    found = match(study, wanted, device=options.device, slots=options.slots, say=_progress)
    yield from _text(found, wanted)
    if found.failed:
        raise FailedResultsError


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _text(found: "Matched", wanted: "Wanted") -> Iterator[str]:
    """Yield what was tried, how the search ended, the section for a study, and the record."""
    import yaml

    from cemlib.search.match import remarks

    heads = (wanted.key, "accuracy [%]", "+- s.e.", "ridge MSE", "")
    rows = [
        (
            f"{value:g}",
            _points(score.accuracy),
            _points(score.standard_error),
            figure(score.mse),
            _remark(value == found.found.value, score.failed),
        )
        for value, score in sorted(found.tried.items())
    ]
    yield aligned([heads, *rows], right=range(4))
    yield from ("", *remarks(found, wanted), "")
    yield yaml.safe_dump(found.section, sort_keys=False, default_flow_style=None)
    yield str(found.record)


def _points(value: float) -> str:
    return "-" if value != value else f"{value:.2f}"


def _remark(nearest: bool, failed: tuple[str, ...]) -> str:
    notes = [f"failed: {reason}" for reason in failed[:1]] + (["nearest"] if nearest else [])
    return "; ".join(notes)
