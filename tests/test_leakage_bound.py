"""The leakage bound against mutual information that is known exactly.

Features z are a function of the image x, so I(x; z~) = I(z; z~) = h(z~) - h(noise), which one
integral over the density of z~ gives for a single feature. The bound takes nothing from samples
but class frequencies and covariances: few points with exactly those of a distribution stand for it.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from cemlib.metrics import leakage_bound

EXACT = 1e-9  # what is left of rounding and of the integration


def bound(classes: list[np.ndarray], noise_std: float) -> float:
    """The bound for these samples of each class, (n, D)."""
    z = torch.as_tensor(np.concatenate(classes), dtype=torch.float64)
    y = torch.cat([torch.full((len(rows),), c) for c, rows in enumerate(classes)])
    return leakage_bound(z, y, noise_std)


def information(density: Callable[[float], float], edges: list[float], noise_std: float) -> float:
    """h(z~) - h(noise) in nats for the density of z~, integrated piece by piece."""

    def minus_p_log_p(t: float) -> float:
        p = density(t)
        return -p * math.log(p) if p > 0 else 0.0

    pieces = pairwise(edges)
    entropy = sum(quad(minus_p_log_p, *piece, epsabs=1e-12, epsrel=1e-11)[0] for piece in pieces)
    return entropy - 0.5 * math.log(2 * math.pi * math.e * noise_std**2)


# A linear channel of Gaussian inputs: z = A x + b with x ~ N(0, I) of d dimensions.


def axis_points(d: int) -> np.ndarray:
    """2 d points of mean 0 and covariance exactly I."""
    return math.sqrt(d) * np.concatenate([np.eye(d), -np.eye(d)])


def channel_information(A: np.ndarray, noise_std: float) -> float:
    """1/2 log det(I + A A^T / sigma^2) by the singular values of A."""
    gains = np.linalg.svd(A, compute_uv=False) / noise_std
    return float(0.5 * np.log1p(gains**2).sum())


@pytest.mark.parametrize(("features", "inputs"), [(2, 2), (5, 3), (3, 7), (40, 4)])
@pytest.mark.parametrize("noise_std", [0.025, 0.3, 5.0])
def test_bound_is_exact_for_a_linear_gaussian_channel(
    features: int, inputs: int, noise_std: float
) -> None:
    A = np.random.default_rng(features).normal(size=(features, inputs))
    z = axis_points(inputs) @ A.T + 0.5
    assert bound([z], noise_std) == pytest.approx(channel_information(A, noise_std), rel=1e-10)


def test_bound_of_separate_gaussian_classes_adds_the_entropy_of_the_classes() -> None:
    """Far apart, z~ tells the class for certain: I = H(y) + sum_k pi_k I_k."""
    rng = np.random.default_rng(0)
    channels = [scale * rng.normal(size=(3, 2)) for scale in (0.2, 1.0, 3.0)]
    repeats = (1, 3, 4)
    classes = [
        np.tile(axis_points(2) @ A.T + 1e3 * k, (n, 1))
        for k, (A, n) in enumerate(zip(channels, repeats, strict=True))
    ]
    weights = np.array(repeats) / sum(repeats)
    within = sum(w * channel_information(A, 0.3) for w, A in zip(weights, channels, strict=True))
    expected = within - float(weights @ np.log(weights))
    assert bound(classes, 0.3) == pytest.approx(expected, rel=1e-10)


# Two Gaussian classes of one feature, with means -a and a.


def normal(t: float, mean: float, std: float) -> float:
    return math.exp(-0.5 * ((t - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))


def two_gaussians(
    a: float, spreads: tuple[float, float], share: float, noise_std: float
) -> tuple[Callable[[float], float], list[float]]:
    """Density of z~, and edges between which it is smooth."""
    wide = [math.hypot(s, noise_std) for s in spreads]

    def density(t: float) -> float:
        return share * normal(t, -a, wide[0]) + (1 - share) * normal(t, a, wide[1])

    reach = 12 * max(wide)
    return density, sorted([-a - reach, -a, 0.0, a, a + reach])


def standing_for(a: float, spreads: tuple[float, float], share: float) -> list[np.ndarray]:
    """Points with exactly the classes' frequencies, in twentieths, means and variances."""
    counts = [round(20 * share), 20 - round(20 * share)]
    pairs = [np.array([[m - s], [m + s]]) for m, s in zip((-a, a), spreads, strict=True)]
    return [np.tile(pair, (n, 1)) for pair, n in zip(pairs, counts, strict=True)]


def gap(a: float, spreads: tuple[float, float], share: float, noise_std: float) -> float:
    """How far the bound lies above the information."""
    exact = information(*two_gaussians(a, spreads, share, noise_std), noise_std)
    return bound(standing_for(a, spreads, share), noise_std) - exact


SHARES = [0.05, 0.3, 0.5]
SPREADS = [(0.5, 0.5), (0.2, 1.0), (0.0, 0.4)]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("spreads", SPREADS)
@pytest.mark.parametrize("noise_std", [0.3, 1.0])
def test_bound_is_above_the_information_of_two_gaussians_and_meets_it_when_they_part(
    share: float, spreads: tuple[float, float], noise_std: float
) -> None:
    width = math.hypot(max(spreads), noise_std)
    gaps = [gap(a * width, spreads, share, noise_std) for a in (0, 0.5, 1, 2, 4, 8)]
    assert min(gaps) > -EXACT
    assert all(near > far for near, far in pairwise(gaps[:-1]))
    assert gaps[-1] == pytest.approx(0, abs=EXACT)


@pytest.mark.parametrize(
    ("z", "y", "noise_std", "message"),
    [
        (torch.zeros(3, 2, 2), torch.zeros(3).long(), 0.1, r"\(3, 2, 2\)"),
        (torch.zeros(3, 2), torch.zeros(4).long(), 0.1, r"\(3, 2\) and \(4,\)"),
        (torch.zeros(0, 2), torch.zeros(0).long(), 0.1, "not empty"),
        (torch.zeros(3, 2), torch.zeros(3), 0.1, "y integers"),
        (torch.zeros(3, 2), torch.zeros(3).long(), -0.1, "at least 0, got -0.1"),
        (torch.zeros(3, 2), torch.zeros(3).long(), math.nan, "got nan"),
        (torch.full((3, 2), math.nan), torch.zeros(3).long(), 0.1, "diverged"),
    ],
)
def test_leakage_refuses_bad_input(z: Tensor, y: Tensor, noise_std: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        leakage_bound(z, y, noise_std)
