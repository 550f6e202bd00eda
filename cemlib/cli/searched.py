"""The texts of `cemlib match`."""

from collections.abc import Iterator

import yaml

from cemlib.cli.columns import aligned, figure
from cemlib.search.match import Matched, Wanted, remarks


def matched(found: Matched, wanted: Wanted) -> Iterator[str]:
    """What was tried, how the search ended, and the section for a study."""
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


def _points(value: float) -> str:
    return "-" if value != value else f"{value:.2f}"


def _remark(nearest: bool, failed: tuple[str, ...]) -> str:
    notes = [f"failed: {reason}" for reason in failed[:1]] + (["nearest"] if nearest else [])
    return "; ".join(notes)
