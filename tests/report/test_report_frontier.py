"""Fronts and privacy at matched accuracy, against brute force and by hand."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cemlib.report.frontier import along, front

Point = tuple[float, float]
# A curve by hand: D is beaten by B in both, E by C in accuracy alone; A, B and C are the front.
CURVE: list[Point] = [(80.0, 0.30), (90.0, 0.20), (98.0, 0.04), (85.0, 0.15), (96.0, 0.04)]
# Few values, so that ties in one or both are frequent.
grid = st.tuples(st.integers(0, 8), st.integers(0, 8))
curves = st.lists(grid, min_size=1, max_size=10)


def efficient(points: list[Point]) -> pd.DataFrame:
    return front(pd.DataFrame(points, columns=["accuracy", "mse"], dtype=float))


def read(points: list[Point], accuracy: float) -> float:
    curve = efficient(points)
    return along(curve, "mse", accuracy)


def beats(a: Point, b: Point) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a != b


@given(curves)
def test_the_front_is_what_no_point_beats(points: list[Point]) -> None:
    found = efficient(points)
    unbeaten = {p for p in points if not any(beats(q, p) for q in points)}
    assert [*found.itertuples(index=False, name=None)] == sorted(unbeaten)
    assert found.index.tolist() == [points.index(point) for point in sorted(unbeaten)]


def test_points_without_a_result_are_on_no_front() -> None:
    points = [(math.nan, 0.9), (99.0, math.nan), (90.0, 0.1), (95.0, math.inf)]
    assert efficient(points).index.tolist() == [2]
    assert efficient(points[:2]).empty
    assert math.isnan(read(points[:2], 95.0))


@pytest.mark.parametrize(
    ("accuracy", "privacy"),
    [(80, 0.30), (85, 0.25), (90, 0.20), (94, 0.12), (96, 0.08), (98, 0.04)],
)
def test_privacy_between_the_efficient_points_is_linear(accuracy: float, privacy: float) -> None:
    """From (90, .20) to (98, .04) it falls by .02 a point; D and E have no say in it."""
    assert efficient(CURVE).index.tolist() == [0, 1, 2]
    assert read(CURVE, accuracy) == pytest.approx(privacy)


@pytest.mark.parametrize("accuracy", [79.999, 98.001, 0.0, 100.0])
def test_nothing_is_extrapolated(accuracy: float) -> None:
    assert math.isnan(read(CURVE, accuracy))
