"""Intervals, paired tests and Holm's correction against scipy and hand computation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cemlib.report.statistics import holm, mean_interval, paired_difference

VALUES = [0.912, 0.905, 0.931, 0.899]
OTHERS = [0.901, 0.909, 0.917, 0.885]


@pytest.mark.parametrize("values", [VALUES, VALUES[:2]])
def test_interval_equals_scipy(values: list[float]) -> None:
    found, n = mean_interval(values), len(values)
    low, high = stats.t.interval(0.95, n - 1, np.mean(values), stats.sem(values))
    assert (found.mean, found.low, found.high) == pytest.approx((np.mean(values), low, high))
    assert found.n == n


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    one, none = mean_interval([0.7]), mean_interval([])
    assert (one.mean, one.n) == (0.7, 1)
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    assert math.isnan(none.mean)
    assert none.n == 0


def test_an_infinite_value_makes_the_mean_infinite_without_interval() -> None:
    found = mean_interval([math.inf, 3.0, 4.0])
    assert found.mean == math.inf
    assert math.isnan(found.low)


def test_paired_difference_equals_scipy() -> None:
    found, expected = paired_difference(VALUES, OTHERS), stats.ttest_rel(VALUES, OTHERS)
    interval = expected.confidence_interval(0.95)
    assert found["p"] == pytest.approx(expected.pvalue)
    ends = found["ci_low"], found["ci_high"]
    assert ends == pytest.approx((interval.low, interval.high))
    assert found["difference"] == pytest.approx(np.mean(VALUES) - np.mean(OTHERS))


def test_pairs_without_spread() -> None:
    """Three seeds that all lose one image of 45: by chance, and no evidence without end."""
    shares, fewer = (
        (np.array(counts, dtype=np.float32) / 45).tolist()
        for counts in ([45, 31, 12], [44, 30, 11])
    )
    assert len({a - b for a, b in zip(shares, fewer, strict=True)}) > 1  # of rounding alone
    found = paired_difference(shares, fewer)
    assert math.isnan(found["p"])
    assert paired_difference([1.0, 2.0], [1.0, 2.0])["p"] == 1
    assert paired_difference([1.0, 2.0], [1.0 + 1e-8, 2.0])["p"] == 1


@pytest.mark.parametrize(
    ("first", "second"), [([1.0], [2.0]), ([], []), ([math.inf, 1.0, 2.0], [math.inf, 2.0, 2.5])]
)
def test_pairs_that_cannot_be_tested_have_no_p(first: list[float], second: list[float]) -> None:
    found = paired_difference(first, second)
    assert found["n_pairs"] == len(first)
    assert math.isnan(found["p"])
    assert math.isnan(found["ci_low"])


def test_holm_stops_at_one_and_skips_what_was_not_tested() -> None:
    found = holm([0.6, math.nan, 0.04])
    assert found[0] == pytest.approx(0.6)
    assert math.isnan(found[1])
    assert found[2] == pytest.approx(0.08)
    assert holm([0.7, 0.8, 0.9]) == [1, 1, 1]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.floats(0.001, 0.2))
def test_holm_rejects_what_the_stepwise_procedure_rejects(p: list[float], level: float) -> None:
    rejected = set()
    order = sorted(range(len(p)), key=lambda i: p[i])
    for rank, i in enumerate(order):
        if (len(p) - rank) * p[i] >= level:
            break
        rejected.add(i)
    assert {i for i, value in enumerate(holm(p)) if value < level} == rejected
