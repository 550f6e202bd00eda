"""Leakage bounds against mutual information by numerical integration.

The image is one of a few, equally likely, and so are the features: I(x; z~) = h(z~) - h(z~ | x),
both integrals over densities that are known.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import log_ndtr
from torch import Tensor

from cemlib.defences.channels import build
from cemlib.numerics.leakage import leakage_estimate
from cemlib.numerics.seeds import generator

POINTS = [np.array([-0.6, -0.5, 0.1, 0.9]), np.array([0.2, 0.21, 0.22, 0.3])]
Density = Callable[[np.ndarray], np.ndarray]


def entropy(p: np.ndarray, cell: float) -> float:
    """Entropy in nats of a density on a grid."""
    return float(-np.sum(np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0)) * cell)


def information(points: np.ndarray, noise: Density, reach: float) -> float:
    """I(x; z~) of single features with additive noise."""
    grid = np.linspace(points.min() - reach, points.max() + reach, 100_001)
    cell = grid[1] - grid[0]
    mixture = np.mean([noise(grid - point) for point in points], axis=0)
    return entropy(mixture, cell) - entropy(noise(grid - points.mean()), cell)


def laplace_gauss(b: float, s: float) -> Density:
    """Density of Laplace plus Gaussian noise (their convolution, in closed form)."""

    def side(t: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(s**2 / (2 * b**2) - t / b + log_ndtr(t / s - s / b)) / (2 * b))

    return lambda t: side(t) + side(-t)


def columns(points: np.ndarray) -> tuple[Tensor, Tensor]:
    """Features (N, 1) of so many equal samples that their number hardly matters, in one class."""
    points = np.tile(points, 10_000)
    return torch.from_numpy(points)[:, None], torch.zeros(len(points), dtype=torch.long)


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("epsilon", [1.0, 20.0, 100.0])
def test_laplace(points: np.ndarray, epsilon: float) -> None:
    channel = build("local_dp", noise_std=0.0, epsilon=epsilon, clip=1.0)
    b = 2 / epsilon
    exact = information(points, stats.laplace(0, b).pdf, 40 * b)
    bound = channel.leakage(*columns(points))
    variance = 0.5 * math.log((points.var() + 2 * b**2) / (2 * math.e * b**2 / math.pi))
    assert 0 < exact <= bound
    assert bound == pytest.approx(min(variance, epsilon), rel=1e-4)


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize(("epsilon", "std"), [(2.0, 0.5), (20.0, 0.1), (20.0, 0.02), (100.0, 0.3)])
def test_laplace_with_gaussian(points: np.ndarray, epsilon: float, std: float) -> None:
    channel = build("local_dp", noise_std=std, epsilon=epsilon, clip=1.0)
    b = 2 / epsilon
    exact = information(points, laplace_gauss(b, std), 30 * b + 12 * std)
    bound = channel.leakage(*columns(points))
    assert 0 < exact <= bound
    assert bound <= 0.5 * math.log1p(points.var() / channel.std**2) + 0.0724


def test_laplace_noise_adds_its_gap_for_every_feature() -> None:
    """Its entropy is 1/2 log(pi / e) below that of Gaussian noise of equal variance, 2 .02^2."""
    z, y = torch.randn(30, 5, generator=generator(0, "z")), torch.arange(30) % 3
    clipped = z / z.abs().sum(1, keepdim=True).clamp(min=1)
    gaussian = leakage_estimate(clipped, y, math.sqrt(2) * 0.02)
    bound = build("local_dp", noise_std=0.0, epsilon=100.0, clip=1.0).leakage(z, y)
    assert bound == pytest.approx(gaussian + 2.5 * math.log(math.pi / math.e))


def test_epsilon_bounds_what_many_features_tell() -> None:
    z, y = torch.randn(30, 512, generator=generator(0, "z")), torch.arange(30) % 3
    assert build("local_dp", noise_std=0.0, epsilon=0.5).leakage(z, y) == 0.5
    assert build("local_dp", noise_std=0.1, epsilon=0.5).leakage(z, y) == 0.5


def test_gaussian_mechanism_has_the_bound_of_its_noise() -> None:
    """Its epsilon, .5 here, is no bound, because densities may differ by more with delta."""
    z, y = torch.randn(30, 5, generator=generator(0, "z")), torch.arange(30) % 3
    channel = build("local_dp", noise_std=0.3, epsilon=0.5, clip=1.0, mechanism="gaussian")
    clipped = z / z.norm(dim=1, keepdim=True).clamp(min=1)
    assert channel.leakage(z, y) == pytest.approx(leakage_estimate(clipped, y, channel.std))


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize(("rate", "std"), [(0.2, 0.05), (0.2, 0.5), (0.8, 0.1)])
def test_dropout_of_one_feature(points: np.ndarray, rate: float, std: float) -> None:
    """Whoever knows the mask learns 1 - rate times what the noise leaves; others learn less."""
    known = (1 - rate) * information(points, stats.norm(0, std).pdf, 12 * std)
    grid = np.linspace(-1.2 - 12 * std, 1.2 + 12 * std, 100_001)
    cell, lost = grid[1] - grid[0], rate * stats.norm.pdf(grid, 0, std)
    releases = [(1 - rate) * stats.norm.pdf(grid, point, std) + lost for point in points]
    unknown = entropy(np.mean(releases, axis=0), cell) - np.mean(
        [entropy(p, cell) for p in releases]
    )
    bound = build("dropout", noise_std=std, rate=rate).leakage(*columns(points))
    assert 0 < unknown <= known <= bound
    assert bound == pytest.approx(0.5 * math.log1p((1 - rate) * points.var() / std**2), rel=1e-4)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_is_above_the_mean_over_all_masks(rate: float) -> None:
    z = torch.randn(40, 6, dtype=torch.float64, generator=generator(0, "z"))
    z = z @ torch.randn(6, 6, dtype=torch.float64, generator=generator(1, "z"))
    y, total = torch.arange(40) % 2, 0.0
    for mask in itertools.product([0.0, 1.0], repeat=6):
        weight = math.prod(1 - rate if kept else rate for kept in mask)
        total += weight * leakage_estimate(z * torch.tensor(mask), y, 0.3)
    found = build("dropout", noise_std=0.3, rate=rate).leakage(z, y)
    assert total <= found < leakage_estimate(z, y, 0.3)


@pytest.mark.parametrize("std", [0.1, 0.3, 1.0])
def test_topk_of_two_features(std: float) -> None:
    """Which of the two is kept is itself a message: the pruned features carry it."""
    z = torch.tensor([[0.9, 0.8], [0.8, 0.9], [-0.5, 0.1], [0.7, -0.75]], dtype=torch.float64)
    pruned = np.array([[0.9, 0], [0, 0.9], [-0.5, 0], [0, -0.75]])
    axis = np.linspace(-1 - 7 * std, 1 + 7 * std, 801)
    cell = (axis[1] - axis[0]) ** 2
    densities = [
        np.outer(stats.norm.pdf(axis, a, std), stats.norm.pdf(axis, b, std)) for a, b in pruned
    ]
    mixture = entropy(np.mean(densities, axis=0), cell)
    exact = mixture - math.log(2 * math.pi * math.e * std**2)
    channel, y = build("topk", noise_std=std, keep=0.5), torch.zeros(4, dtype=torch.long)
    assert 0 < exact <= channel.leakage(z, y)
    assert channel.leakage(z, y) == leakage_estimate(torch.from_numpy(pruned), y, std)


@pytest.mark.parametrize("name", ["noise", "dropout", "topk"])
def test_without_noise_nothing_bounds_the_information(name: str) -> None:
    z, y = torch.rand(6, 3), torch.zeros(6, dtype=torch.long)
    assert build(name, noise_std=0.0).leakage(z, y) == math.inf
