"""The estimated bound against that of the Gaussians that the features were drawn from."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from cemlib.numerics.leakage import leakage_bound, leakage_estimate

DIM, TRUE_NATS = 512, 50.0
RANKS = torch.arange(1, DIM + 1, dtype=torch.float64)
# How variance is spread over the directions: effective ranks 512, 80, 28 and 20.
SPECTRA = {
    "even": torch.ones(DIM, dtype=torch.float64),
    "slow": torch.exp(-RANKS / 40),
    "long tail": 1 / RANKS,
    "fast": torch.exp(-RANKS / 10),
}


def scaled(shape: Tensor) -> Tensor:
    """Variances of that shape which tell `TRUE_NATS`, where the noise has variance 1."""
    low, high = 1e-6, 1e6
    for _ in range(100):
        scale = (low * high) ** 0.5
        told = 0.5 * torch.log1p(scale * shape).sum()
        low, high = (scale, high) if told < TRUE_NATS else (low, scale)
    return scale * shape


def drawn(spectrum: str, images: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features and labels of one class."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(images, DIM, dtype=torch.float64, generator=generator)
    return z * scaled(SPECTRA[spectrum]).sqrt(), torch.zeros(images, dtype=torch.long)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize(("images", "share"), [(125, 0.02), (DIM, 0.01), (2 * DIM, 0.01)])
def test_the_estimate_is_near_the_truth(spectrum: str, images: int, share: float) -> None:
    z, y = drawn(spectrum, images)
    assert leakage_estimate(z, y, 1.0) == pytest.approx(TRUE_NATS, rel=share)
    assert leakage_bound(z, y, 1.0) < leakage_estimate(z, y, 1.0)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("images", [2, 14, 36])
def test_too_few_images_say_too_little_and_more_than_their_covariance(
    spectrum: str, images: int
) -> None:
    z, y = drawn(spectrum, images)
    assert leakage_bound(z, y, 1.0) < leakage_estimate(z, y, 1.0) < TRUE_NATS


def test_as_many_images_as_dimensions_are_enough_under_hardly_any_noise() -> None:
    """Noise of a thousandth of the variance hides no direction of the 64."""
    z = torch.randn(96, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    truth = 32 * torch.log1p(torch.tensor(1e3)).item()
    y = torch.zeros(96, dtype=torch.long)
    assert leakage_estimate(z * 1e3**0.5, y, 1.0) == pytest.approx(truth, rel=0.02)


def test_classes_are_added_with_their_entropy() -> None:
    (z, y), (other, _) = drawn("fast", 300), drawn("fast", 100, seed=1)
    z, y = torch.cat([z, other + 9]), torch.cat([y, torch.ones(100, dtype=torch.long)])
    entropy = -0.75 * torch.tensor(0.75).log() - 0.25 * torch.tensor(0.25).log()
    found = leakage_estimate(0.025 * z, y, 0.025)
    assert found == pytest.approx(TRUE_NATS + float(entropy), rel=0.02)


def test_a_class_of_one_image_and_equal_features_tell_the_class_alone() -> None:
    z, y = torch.ones(5, 7), torch.tensor([0, 1, 1, 1, 1])
    entropy = -0.2 * torch.tensor(0.2).log() - 0.8 * torch.tensor(0.8).log()
    assert leakage_estimate(z, y, 0.5) == pytest.approx(float(entropy), rel=1e-6)


@pytest.mark.parametrize("formula", [leakage_bound, leakage_estimate])
def test_hardly_any_noise_bounds_nothing(formula: Callable[..., float]) -> None:
    """Every factor of 1000 adds log(1000) for each direction that the samples tell of."""
    z = torch.randn(20, 50, generator=torch.Generator().manual_seed(0))
    one = torch.zeros(20, dtype=torch.long)
    bound = partial(formula, z, one)
    values = [bound(noise) for noise in (1e-6, 1e-9, 1e-12)]
    steps = [after - before for before, after in pairwise(values)]
    assert steps == pytest.approx([19 * math.log(1000)] * 2, rel=1e-6)
    assert bound(1e-160) == math.inf
