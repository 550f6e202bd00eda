"""Statistics on a thousand simulated studies each, of which the truth is known.

A share of 95 % is found in a thousand studies with a standard error of 0.7 points, one of 5 % too.
"""

import math

import numpy as np
import pytest

from cemlib.report.statistics import holm, mean_interval, paired_difference, sign_permutation

STUDIES = 1000
DEFENCES, SEEDS = 8, 5


@pytest.mark.parametrize("seeds", [3, 5])
def test_the_interval_of_a_mean_covers_it(seeds: int) -> None:
    values = np.random.default_rng(seeds).normal(7, 2, (STUDIES, seeds))
    found = [mean_interval(row.tolist()) for row in values]
    assert 0.93 <= np.mean([each.low < 7 < each.high for each in found]) <= 0.97


def test_the_interval_of_a_paired_difference_covers_it() -> None:
    """The seeds' own differences are ten times what is left of them in a pair."""
    rng = np.random.default_rng(1)
    shared = rng.normal(0, 10, (STUDIES, 3))
    ours, theirs = (shared + shift + rng.normal(0, 1, shared.shape) for shift in (2, 0))
    pairs = zip(ours.tolist(), theirs.tolist(), strict=True)
    found = [paired_difference(*pair) for pair in pairs]
    assert 0.93 <= np.mean([each.low < 2 < each.high for each in found]) <= 0.97


def p_values(real: int) -> np.ndarray:
    """p of (STUDIES, DEFENCES) against one reference; the first so many differ from it by 3 s.

    All share the reference, and so depend on each other.
    """
    rng = np.random.default_rng(4)
    reference = rng.normal(0, 1, (STUDIES, 1, SEEDS))
    values = rng.normal(0, 1, (STUDIES, DEFENCES, SEEDS))
    values[:, :real] += 3
    gains = values - reference
    return np.array([[paired_difference(d, [0.0] * SEEDS).p for d in s] for s in gains.tolist()])


def test_a_study_without_differences_seldom_shows_one() -> None:
    p = p_values(real=0)
    uncorrected = np.mean(p.min(axis=1) < 0.05)
    corrected = np.mean([min(holm(row)) < 0.05 for row in p.tolist()])
    assert uncorrected > 0.15
    assert corrected <= 0.065
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.015)


def test_real_differences_are_found_and_lend_nothing_to_the_others() -> None:
    adjusted = np.array([holm(row) for row in p_values(real=3).tolist()])
    assert np.mean((adjusted[:, 3:] < 0.05).any(axis=1)) <= 0.065
    assert np.mean(adjusted[:, :3] < 0.05) > 0.2


def test_the_permutation_p_is_uniform_where_there_is_no_difference() -> None:
    """Of six pairs p is a multiple of 1/32; heavy tails do not matter to it."""
    values = np.random.default_rng(6).standard_cauchy((STUDIES, 6))
    p = np.array([sign_permutation(row) for row in values.tolist()])
    for level in (1 / 32, 4 / 32, 8 / 32, 16 / 32):
        error = math.sqrt(level * (1 - level) / STUDIES)
        assert np.mean(p <= level) == pytest.approx(level, abs=3.5 * error)
