"""Compute means, intervals and comparisons over seeds, or over seeds and images.

Sources: Student, "The probable error of a mean", Biometrika 6, 1908 (interval and paired test);
Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics
6, 1979 (correction for several comparisons). Of the intervals for other seeds and other images:
Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1, 2007 (rows and columns of a matrix
drawn independently); Rao and Wu, "Resampling inference with complex survey data", Journal of the
American Statistical Association 83, 1988 (n - 1 draws of n, so that the spread is not too small for
small n); Satterthwaite, "An approximate distribution of estimates of variance components",
Biometrics Bulletin 2, 1946 (degrees of freedom of a sum).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # importing scipy.stats takes as long as a table

Array = NDArray[np.float64]

LEVEL = 0.95  # coverage of every interval
_ROUNDING = 1e-6  # relative: scores are float32, and equal shares of images differ by that much


@dataclass(frozen=True)
class Interval:
    """A mean over ``n`` values and its confidence interval; NaN where there is none."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def arms(self) -> list[list[float]]:
        """Return the lengths of both arms of the interval, as matplotlib takes them."""
        return [[self.mean - self.low], [self.high - self.mean]]


def mean_interval(values: Sequence[float]) -> Interval:
    """Return mean and 95 % Student-t interval ``mean +- t(n - 1) s / sqrt(n)`` of values.

    The values are independent, one per seed; NaN stands for a missing one. Without any, the mean is
    NaN. With fewer than two, or an infinite one (and so an infinite mean), the interval is NaN.

    Example:
        >>> found = mean_interval([1.0, 2.0, 3.0])
        >>> found.mean, round(found.high - found.mean, 3), found.n
        (2.0, 2.484, 3)
    """
    kept = np.array([value for value in values if not math.isnan(value)], dtype=np.float64)
    n = len(kept)
    mean = float(kept.mean()) if n else math.nan
    half = math.nan
    if n > 1 and math.isfinite(mean):
        half = student_quantile(n - 1) * float(kept.std(ddof=1)) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


def mean_columns(name: str, values: Iterable[float | None]) -> dict[str, float]:
    """Return mean and interval of a score as the columns of a table; None counts as missing."""
    found = mean_interval([math.nan if value is None else float(value) for value in values])
    ends = {"mean": found.mean, "ci_low": found.low, "ci_high": found.high}
    return {f"{name}_{end}": value for end, value in ends.items()}


def paired_difference(first: Sequence[float], second: Sequence[float]) -> dict[str, float]:
    """Return the paired test of ``first - second``, the same seeds in order, as columns of a table.

    Returns:
        ``n_pairs``, the mean ``difference``, its interval ``ci_low`` and ``ci_high``, and ``p`` of
        the two-sided paired t-test. With fewer than two pairs the interval and p are NaN; without
        any, or with a value that is not finite, so is the mean. If all differences are equal, p is
        NaN, since they give no estimate of their spread. If all are zero, p is 1: a share of few
        images can take only few values, and some seeds agree by chance.

    Raises:
        ValueError: if the two are not equally long.

    Example:
        >>> found = paired_difference([1.0, 2.0, 4.0], [0.0, 2.0, 2.0])
        >>> found["difference"], round(found["p"], 4)
        (1.0, 0.2254)
    """
    differences = [a - b for a, b in zip(first, second, strict=True)]
    n, usable = len(differences), all(math.isfinite(d) for d in differences)
    found = mean_interval(differences if usable else [])
    row = {"n_pairs": n, "difference": found.mean, "ci_low": found.low, "ci_high": found.high}
    if n < 2 or not usable:
        return row | {"p": math.nan}
    size, spread = max(map(abs, (*first, *second))), np.std(differences, ddof=1)
    if spread <= _ROUNDING * size:
        are_zero = all(abs(d) <= _ROUNDING * size for d in differences)
        return row | {"p": 1.0 if are_zero else math.nan}
    t = abs(found.mean) / (spread / math.sqrt(n))
    return row | {"p": float(2 * stdtr(n - 1, -t))}


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p values: significant at ``a`` if the adjusted value is below ``a``.

    The i-th smallest of m is multiplied by ``m - i + 1``, never falls below the one before it and
    never rises above 1. NaN stays NaN and does not count as a comparison.

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


def student_quantile(freedom: float, probability: float = 0.5 + LEVEL / 2) -> float:
    """Return a quantile of Student's t distribution, by default that of the intervals."""
    return float(stdtrit(freedom, probability))


def two_level_interval(differences: Array) -> tuple[float, float]:
    """Return the interval of the mean of differences (S seeds, N images), for others of both.

    Its variance is, in closed form, that of a bootstrap which draws, with replacement, N images and
    S - 1 seeds, the same images for all seeds. Student's quantile has Satterthwaite's degrees of
    freedom; quantiles of resamples would be far too narrow for three or five seeds. The interval is
    never narrower than the one over the seeds alone: with three seeds, a small part of the images
    lowers the quantile by more than it raises the variance. Both ends are NaN for fewer than two
    seeds or images, or where a value is not finite.
    """
    seeds, images = differences.shape
    if min(seeds, images) < 2 or not np.isfinite(differences).all():
        return math.nan, math.nan
    by_seed = differences.mean(axis=1)
    within = differences - by_seed[:, None]
    shared = within.mean(axis=0)  # of an image in all seeds; the rest belongs to both
    of_seeds = float(by_seed.var(ddof=1)) / seeds
    of_images = float(shared.var() + (within - shared).var() / (seeds - 1)) / images
    variance, mean = of_seeds + of_images, float(by_seed.mean())
    if variance == 0:
        return mean, mean
    freedom = variance**2 / (of_seeds**2 / (seeds - 1) + of_images**2 / (images - 1))
    of_both = student_quantile(freedom) * math.sqrt(variance)
    half = max(of_both, student_quantile(seeds - 1) * math.sqrt(of_seeds))
    return mean - half, mean + half
