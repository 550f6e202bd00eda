"""Local differential privacy: calibration, clipping, and the guarantee itself."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad

from cemlib.config.defences import LocalDPChannel
from cemlib.defences.channels.local_dp import (
    LocalDP,
    analytic_gaussian_std,
    laplace_quantile,
)
from cemlib.numerics.seeds import generator

BUDGETS = [(e, 1e-5) for e in (0.01, 0.5, 1.0, 30.0, 400.0)] + [(1.0, 1e-8), (3.0, 0.01)]


def local_dp(epsilon: float, mechanism: str, clip: float) -> LocalDP:
    """The channel without other noise."""
    options = {"epsilon": epsilon, "mechanism": mechanism, "clip": clip}
    return LocalDP(0.0, LocalDPChannel.model_validate(options))


def divergence(epsilon: float, sigma: float, sensitivity: float) -> float:
    """Hockey-stick divergence of N(sensitivity, sigma^2) from N(0, sigma^2), by integration."""
    near, far = stats.norm(sensitivity, sigma), stats.norm(0, sigma)

    def excess(t: float) -> float:
        return max(0.0, near.pdf(t) - math.exp(epsilon + far.logpdf(t)))

    border = sensitivity / 2 + epsilon * sigma**2 / sensitivity  # where the two are equal
    return quad(excess, border, border + 12 * sigma, epsabs=0, epsrel=1e-10, limit=200)[0]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_gaussian_mechanism_meets_the_definition_and_no_more(
    epsilon: float, delta: float
) -> None:
    sigma = analytic_gaussian_std(epsilon, delta, 3.0)
    assert divergence(epsilon, sigma, 3.0) == pytest.approx(delta, rel=1e-6, abs=0)
    assert divergence(epsilon, 0.99 * sigma, 3.0) > delta * 1.001


@pytest.mark.parametrize(("epsilon", "delta"), [(1e4, 1e-5), (1e6, 0.1), (1e-4, 1e-3)])
def test_the_gaussian_mechanism_by_logarithms_at_extreme_budgets(
    epsilon: float, delta: float
) -> None:
    u = 1 / analytic_gaussian_std(epsilon, delta, 1.0)
    first = stats.norm.cdf(u / 2 - epsilon / u)
    second = math.exp(epsilon + stats.norm.logcdf(-u / 2 - epsilon / u))
    assert first - second == pytest.approx(delta, rel=1e-5, abs=0)


def test_the_noise_follows_sensitivity_and_budget() -> None:
    laplace, gaussian = (local_dp(8.0, mechanism, 2.0) for mechanism in ("laplace", "gaussian"))
    assert laplace.scale == 0.5
    assert laplace.std == pytest.approx(0.5 * math.sqrt(2))
    assert divergence(8.0, gaussian.std, 4.0) == pytest.approx(1e-5, rel=1e-6, abs=0)


@pytest.mark.parametrize(("mechanism", "order"), [("laplace", 1), ("gaussian", 2)])
def test_each_sample_is_clipped_by_itself(mechanism: str, order: int) -> None:
    z = torch.randn(40, 3, 2, 2, dtype=torch.float64, generator=generator(0, "z"))
    z[0] = 0
    z *= torch.linspace(0.01, 2, 40, dtype=torch.float64).view(-1, 1, 1, 1)
    clipped = local_dp(1.0, mechanism, 3.0).shape(z).flatten(1).numpy()
    for row, found in zip(z.flatten(1).numpy(), clipped, strict=True):
        norm = np.linalg.norm(row, order)
        np.testing.assert_allclose(found, row * (min(1, 3 / norm) if norm > 0 else 1), rtol=1e-12)


def test_the_laplace_quantile_in_float32() -> None:
    uniform = torch.tensor([0, 1, 2**22, 2**23 - 1, 2**23, 3 * 2**22, 2**24 - 1]) / 2**24
    found = laplace_quantile(uniform)
    expected = stats.laplace.ppf(uniform.double().numpy() + 2.0**-25)  # the middle of the step
    assert found.isfinite().all()
    assert found[0] == -found[-1]
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=1e-5)


def test_four_laplace_queries_are_a_mean_of_four_draws() -> None:
    """The mean of four has an excess kurtosis of 3 / 4; a single draw has 3, a Gaussian 0."""
    channel = local_dp(1.0, "laplace", 0.5)
    draws = channel(torch.zeros(400_000, 1), generator(0, "n"), queries=4).double().numpy()
    assert stats.kurtosis(draws[:, 0]) == pytest.approx(0.75, abs=0.08)
