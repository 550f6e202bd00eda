"""Means, intervals and comparisons over seeds.

Sources: Student, "The probable error of a mean", Biometrika 6, 1908 (interval and paired test);
Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics
6, 1979 (correction for several comparisons).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean over ``n`` values and its confidence interval; NaN where there is none."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Difference:
    """Mean paired difference with its interval and the two-sided p of no difference."""

    mean: float
    low: float
    high: float
    n: int
    p: float


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Mean and Student-t interval ``mean +- t(n - 1) s / sqrt(n)`` of independent values.

    Args:
        values: one value per seed; NaN counts as a value that is missing.
        level: coverage of the interval.

    Returns:
        NaN as mean of no values; NaN as interval of fewer than two. If a value is infinite the mean
        is, and has no interval.

    Example:
        >>> found = mean_interval([1.0, 2.0, 3.0])
        >>> found.mean, round(found.high - found.mean, 3), found.n
        (2.0, 2.484, 3)
    """
    kept = np.array([value for value in values if not math.isnan(value)], dtype=np.float64)
    n = len(kept)
    mean = float(kept.mean()) if n else math.nan
    half = _half_width(kept, level) if n > 1 and math.isfinite(mean) else math.nan
    return Interval(mean, mean - half, mean + half, n)


def paired_difference(
    first: Sequence[float], second: Sequence[float], level: float = LEVEL
) -> Difference:
    """Paired t test of ``first - second``: the same seeds in the same order.

    Args:
        first: values of one defence, one per seed.
        second: values of another for the same seeds.
        level: coverage of the interval.

    Returns:
        The mean difference; its interval and p are NaN for fewer than two pairs or where a value is
        not finite. Differences that are all equal have p = 0, or 1 if they are all zero.

    Raises:
        ValueError: if the two are not equally long.

    Example:
        >>> found = paired_difference([1.0, 2.0, 4.0], [0.0, 2.0, 2.0])
        >>> found.mean, round(found.p, 4)
        (1.0, 0.2254)
    """
    if len(first) != len(second):
        raise ValueError(f"pairs need equally many values, got {len(first)} and {len(second)}")
    differences = [a - b for a, b in zip(first, second, strict=True)]
    if not all(math.isfinite(d) for d in differences):
        return Difference(math.nan, math.nan, math.nan, len(differences), math.nan)
    found = mean_interval(differences, level)
    return Difference(found.mean, found.low, found.high, found.n, _p_of_zero(differences))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values: significant at ``a`` if the adjusted value is below ``a``.

    The i-th smallest of m is multiplied by ``m - i + 1``, never falls below the one before it and
    never rises above 1. NaN stays NaN and does not count as a comparison.

    Args:
        p_values: one p value per comparison.

    Returns:
        The adjusted values in the same order.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        adjusted[i] = largest
    return adjusted


def _half_width(values: np.ndarray, level: float) -> float:
    n = len(values)
    quantile = student_t.ppf(0.5 + level / 2, n - 1)
    return float(quantile * values.std(ddof=1) / math.sqrt(n))


def _p_of_zero(differences: Sequence[float]) -> float:
    """Two-sided p of a one-sample t test against zero."""
    n = len(differences)
    if n < 2:
        return math.nan
    mean, spread = np.mean(differences), np.std(differences, ddof=1)
    if spread == 0:
        return float(mean == 0)
    return float(2 * student_t.sf(abs(mean) / (spread / math.sqrt(n)), n - 1))
