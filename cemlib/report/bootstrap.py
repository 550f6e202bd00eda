"""Bootstrap over seeds and images, for intervals that hold for other seeds and other images.

Sources: Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1, 2007 (rows and columns of
a matrix drawn independently); Rao and Wu, "Resampling inference with complex survey data", Journal
of the American Statistical Association 83, 1988 (n - 1 draws of n, so that the spread is not too
small for small n); Satterthwaite, "An approximate distribution of estimates of variance
components", Biometrics Bulletin 2, 1946 (degrees of freedom of a sum).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cemlib.report.statistics import student_quantile

Array = NDArray[np.float64]
Ends = tuple[float, float]

RESAMPLES = 2000
_AT_ONCE = 100  # resamples whose counts are in memory together
_NONE: Ends = (math.nan, math.nan)


def two_level_intervals(differences: Sequence[Array], resamples: int = RESAMPLES) -> list[Ends]:
    """Return intervals of the means of differences (S seeds, N images) by resampling both.

    Each resample draws the N images with replacement, the same for all seeds, since all were scored
    on the same test images, and S - 1 of the S seeds with replacement. The variance over the
    resamples is the sum of that of the seeds, which is known exactly, and that of the images; the
    interval is the mean plus and minus Student's quantile times its root, with Satterthwaite's
    degrees of freedom between S - 1 and N - 1. Quantiles of the resamples themselves would be far
    too narrow for three or five seeds.

    Returns:
        Both ends of each; NaN for fewer than two seeds or images, or where a value is not finite.
        An interval does not depend on the other differences.
    """
    usable = [min(each.shape) > 1 and bool(np.isfinite(each).all()) for each in differences]
    kept = [each for each, good in zip(differences, usable, strict=True) if good]
    if not kept:
        return [_NONE] * len(differences)
    drawn = _image_means(np.concatenate(kept), resamples)
    parts = np.split(drawn, np.cumsum([len(each) for each in kept])[:-1])
    ends = (_interval(each, part) for each, part in zip(kept, parts, strict=True))
    return [next(ends) if good else _NONE for good in usable]


def two_level_means(image_means: Array) -> Array:
    """Return the mean of S - 1 drawn seeds in each resample: (S, B) means over images to (B,)."""
    seeds, resamples = image_means.shape
    drawn = np.random.default_rng([1, seeds]).integers(seeds, size=(seeds - 1, resamples))
    means: Array = np.take_along_axis(image_means, drawn, axis=0).mean(axis=0)
    return means


def _image_means(values: Array, resamples: int) -> Array:
    """Return the mean over N drawn images in each resample: (R, N) values to (R, B)."""
    images = values.shape[1]
    rng = np.random.default_rng([0, images])
    parts = []
    for start in range(0, resamples, _AT_ONCE):
        rows = min(_AT_ONCE, resamples - start)
        drawn = rng.integers(images, size=(rows, images)) + images * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * images).reshape(rows, images)
        parts.append(values @ counts.T.astype(np.float64) / images)
    return np.concatenate(parts, axis=1)


def _interval(differences: Array, drawn: Array) -> Ends:
    seeds, images = differences.shape
    of_seeds = float(differences.mean(axis=1).var(ddof=1)) / seeds
    of_images = max(float(two_level_means(drawn).var(ddof=1)) - of_seeds, 0.0)
    variance, mean = of_seeds + of_images, float(differences.mean())
    if variance == 0:
        return mean, mean
    freedom = variance**2 / (of_seeds**2 / (seeds - 1) + of_images**2 / (images - 1))
    half = student_quantile(freedom) * math.sqrt(variance)
    return mean - half, mean + half
