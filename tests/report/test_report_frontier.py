"""Fronts and privacy at matched accuracy, against brute force and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cemlib.report.frontier import (
    Point,
    along,
    front,
    span,
)

# A curve by hand: D is beaten by B in both, E by C in accuracy alone; A, B and C are the front.
CURVE: list[Point] = [(80.0, 0.30), (90.0, 0.20), (98.0, 0.04), (85.0, 0.15), (96.0, 0.04)]
# Few values, so that ties in one or both are frequent.
grid = st.tuples(st.integers(0, 8), st.integers(0, 8))
curves = st.lists(grid, min_size=1, max_size=10)


def beats(a: Point, b: Point) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a != b


@given(curves)
def test_the_front_is_what_no_point_beats(points: list[Point]) -> None:
    found = [points[i] for i in front(points)]
    assert found == sorted({p for p in points if not any(beats(q, p) for q in points)})
    assert len(set(found)) == len(found)


def test_a_front_by_hand() -> None:
    assert front(CURVE) == [0, 1, 2]
    assert span(CURVE) == (80.0, 98.0)


def test_points_without_a_result_are_on_no_front() -> None:
    points = [(math.nan, 0.9), (99.0, math.nan), (90.0, 0.1), (95.0, math.inf)]
    assert front(points) == [2]
    assert front(points[:2]) == []
    assert span(points[:2]) is None
    assert math.isnan(along(points[:2], [1.0, 2.0], 95.0))


@pytest.mark.parametrize(
    ("accuracy", "privacy"),
    [(80, 0.30), (85, 0.25), (90, 0.20), (94, 0.12), (96, 0.08), (98, 0.04)],
)
def test_privacy_between_the_efficient_points_is_linear(accuracy: float, privacy: float) -> None:
    """From (90, .20) to (98, .04) it falls by .02 a point; D and E have no say in it."""
    assert along(CURVE, [p for _, p in CURVE], accuracy) == pytest.approx(privacy)


def test_other_quantities_are_read_at_the_same_place() -> None:
    """At 94 % halfway from B (strength 8) to C (strength 2), whatever D and E have."""
    assert along(CURVE, [32.0, 8.0, 2.0, 1000.0, -1000.0], 94.0) == pytest.approx(5.0)


@pytest.mark.parametrize("accuracy", [79.999, 98.001, 0.0, 100.0])
def test_nothing_is_extrapolated(accuracy: float) -> None:
    assert math.isnan(along(CURVE, [p for _, p in CURVE], accuracy))


def test_of_equal_points_the_first_counts() -> None:
    assert front([(1.0, 1.0), (1.0, 1.0)]) == [0]
    assert along([(1.0, 1.0), (1.0, 1.0)], [7.0, 9.0], 1.0) == 7.0


def test_where_strength_does_not_order_the_points_the_curve_still_falls() -> None:
    """More strength that costs accuracy and brings nothing is no part of the curve."""
    points = [(95.0, 0.1), (93.0, 0.08), (94.0, 0.3)]
    assert front(points) == [2, 0]
    assert along(points, [p for _, p in points], 94.5) == pytest.approx(0.2)
    assert math.isnan(along(points, [p for _, p in points], 93.5))


@given(curves, st.floats(0, 8))
def test_a_curve_never_rises_and_stays_between_its_ends(points: list[Point], place: float) -> None:
    privacies = [float(p) for _, p in points]
    low, high = span(points) or (0, 0)
    at = [along(points, privacies, low + (high - low) * part) for part in np.linspace(0, 1, 9)]
    assert np.all(np.diff(at) <= 1e-9)
    inside = low <= place <= high
    assert math.isfinite(along(points, privacies, place)) == inside
