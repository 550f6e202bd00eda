"""Intervals over seeds and images: against closed forms, and by how often they hold the truth."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic_study import DEFENCES, Study, image_scores

from cemlib.records.files import FileError
from cemlib.report.comparisons import comparisons_table, with_image_intervals
from cemlib.report.statistics import paired_difference, two_level_interval

IMAGES = 60


def differences(studies: int, seeds: int, of_images: float) -> list[np.ndarray]:
    """Matrices (seeds, IMAGES) of mean 0; the parts of the seeds and of the rest have spread 1."""
    rng = np.random.default_rng(seeds)
    parts = (1.0, (seeds, 1)), (of_images, (1, IMAGES)), (1.0, (seeds, IMAGES))
    return [sum(s * rng.standard_normal(shape) for s, shape in parts) for _ in range(studies)]


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("of_images", [0.0, 1.5, 4.0, 12.0])
def test_the_intervals_cover_the_truth(seeds: int, of_images: float) -> None:
    """Seeds decide, both do, images decide: the mean's variance is 1/S + of_images**2/60 + ..."""
    found = [two_level_interval(each) for each in differences(1000, seeds, of_images)]
    assert 0.935 <= np.mean([low < 0 < high for low, high in found]) <= 0.965


def test_the_variance_is_that_over_resamples() -> None:
    (values,) = differences(1, 4, 12.0)
    rng = np.random.default_rng(0)
    drawn = (
        np.ix_(rng.integers(4, size=3), rng.integers(IMAGES, size=IMAGES)) for _ in range(20_000)
    )
    variance = np.var([values[each].mean() for each in drawn])
    of_seeds = values.mean(1).var(ddof=1) / 4
    freedom = variance**2 / (of_seeds**2 / 3 + (variance - of_seeds) ** 2 / (IMAGES - 1))
    low, high = two_level_interval(values)
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, freedom) * variance**0.5, rel=0.02)


def test_without_any_spread_of_images_it_is_students_interval() -> None:
    rows = np.array([0.3, 0.5, 0.1, 0.45])
    expected = paired_difference(rows.tolist(), [0.0] * 4)
    ends = expected["ci_low"], expected["ci_high"]
    assert two_level_interval(np.tile(rows[:, None], 9)) == pytest.approx(ends)


def test_with_seeds_that_agree_it_is_students_interval_over_images() -> None:
    """Up to the factor N - 1 of N in the variance of a bootstrap."""
    row = np.random.default_rng(1).normal(0.4, 1, 500)
    expected = stats.t.interval(0.95, 499, row.mean(), stats.sem(row, ddof=0))
    assert two_level_interval(np.tile(row, (3, 1))) == pytest.approx(expected)


def test_what_has_no_interval() -> None:
    (good,) = differences(1, 3, 1.0)
    infinite = good.copy()
    infinite[0, 0] = np.inf
    for values in (infinite, good[:1], good[:, :1], good[:, :0]):
        assert all(math.isnan(end) for end in two_level_interval(values))
    assert two_level_interval(np.full((3, 4), 0.5)) == (0.5, 0.5)


def compared(study: Study) -> pd.DataFrame:
    runs, attacks = study.frames()
    table = comparisons_table(runs, attacks, DEFENCES, "noise")
    return with_image_intervals(table, attacks).set_index(["defence", "metric"])


def scored(study: Study, defence: str, seed: int, error: float, **columns: Any) -> None:
    """A run, whose decoder is stronger than the mean image; each leaves the scores of images."""
    for attack, mse in (("decoder", error), ("mean_image", 0.5)):
        scores = image_scores(mse).assign(**columns)
        mean = float(scores["mse"].mean())
        folder = study.add_attack(defence, seed, attack, "train_data", mse=mean)
        scores.to_parquet(folder.per_image)


def test_a_study_has_them_of_its_strongest_attack(study: Study) -> None:
    for seed, (ours, theirs) in enumerate([(0.02, 0.010), (0.023, 0.012), (0.021, 0.011)]):
        scored(study, "gated", seed, ours)
        scored(study, "noise", seed, theirs)
    table = compared(study)
    spread = np.stack([image_scores(e)["mse"] for e in (0.01, 0.011, 0.01)])
    row = table.loc[("gated", "mse")]
    expected = two_level_interval(spread)
    assert (row["boot_low"], row["boot_high"]) == pytest.approx(expected)
    assert row["boot_low"] < row["ci_low"] < row["difference"] < row["boot_high"]
    assert math.isfinite(table.loc[("gated", "ssim"), "boot_low"])
    assert math.isnan(table.loc[("gated", "top1"), "boot_low"])


def test_scores_of_images_that_are_absent_or_of_others_are_refused(study: Study) -> None:
    scored(study, "noise", 0, 0.01)
    scored(study, "gated", 0, 0.02, index=np.arange(41) + 1)
    with pytest.raises(FileError, match=r"gated.*per_image\.parquet: scores other images"):
        compared(study)
    (study.root / "runs/gated/seed0/attacks/decoder-train_data/per_image.parquet").unlink()
    with pytest.raises(FileError, match=r"gated/seed0/.*per_image\.parquet: cannot be read"):
        compared(study)
