"""Distance correlation against scipy and scikit-learn, and the facts published with it."""

import math

import pytest
import torch
from penalties import build, plain_alignment
from scipy.spatial.distance import cdist
from torch import Tensor

from cemlib.defences.penalties.nopeek import distance_correlation


def plain(x: Tensor, y: Tensor) -> float:
    a, b = (cdist(each, each) for each in (x.double().numpy(), y.double().numpy()))
    return math.sqrt(plain_alignment(a, b))


def samples(n: int, dim: int, seed: int = 0) -> Tensor:
    numbers = torch.Generator().manual_seed(seed)
    return torch.randn(n, dim, dtype=torch.float64, generator=numbers)


def pairs(n: int, dim: int, width: int) -> tuple[Tensor, Tensor]:
    """Samples and a noisy curved function of them, float64."""
    x = samples(n, dim)
    y = torch.sigmoid(x @ samples(dim, width, 1) / dim**0.5)
    return x, y + 0.2 * samples(n, width, 2)


def gradient(x: Tensor, y: Tensor) -> Tensor:
    y = y.clone().requires_grad_()
    distance_correlation(x, y).backward()
    return y.grad


SIZES = [(2, 3, 2), (5, 1, 1), (20, 4, 7), (48, 200, 32)]


@pytest.mark.parametrize(
    ("dtype", "spread", "error"),
    [(torch.float64, 1.0, 1e-12), *((torch.float32, spread, 1e-5) for spread in (1.0, 1e-3, 1e-6))],
)
@pytest.mark.parametrize(("n", "dim", "width"), SIZES)
def test_the_correlation_in_both_precisions(
    n: int, dim: int, width: int, dtype: torch.dtype, spread: float, error: float
) -> None:
    """Also where the features have contracted around a point far from 0."""
    x, y = pairs(n, dim, width)
    x, y = x.to(dtype), (0.5 + spread * y).to(dtype)
    assert float(distance_correlation(x, y)) == pytest.approx(plain(x, y), rel=error)


def test_gradients_in_single_precision() -> None:
    x, y = pairs(40, 100, 16)
    x, y = x.float(), y.float()
    expected = gradient(x.double(), y.double())
    assert (gradient(x, y) - expected).norm() < 1e-5 * expected.norm()


def test_gradients_against_finite_differences() -> None:
    x, y = pairs(6, 4, 3)
    assert torch.autograd.gradcheck(distance_correlation, (x.requires_grad_(), y.requires_grad_()))


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_neither_tiny_nor_huge_samples_leave_the_range_of_single_precision(factor: float) -> None:
    x, y = (each.float() for each in pairs(20, 5, 4))
    found = distance_correlation(factor * x, factor * y)
    assert float(found) == pytest.approx(plain(factor * x, factor * y), rel=1e-5)
    pull = gradient(factor * x, factor * y)
    assert torch.allclose(pull * factor, gradient(x, y), rtol=1e-3, atol=1e-6)


def test_a_batch_of_two_has_correlation_one_and_no_pull() -> None:
    x, y = (each.float() for each in pairs(2, 5, 4))
    assert float(distance_correlation(x, y)) == pytest.approx(1, abs=1e-6)
    assert gradient(x, y).abs().max() < 1e-6


def test_one_sample_has_none() -> None:
    x, y = pairs(1, 5, 4)
    assert float(distance_correlation(x, y)) == 0
    assert torch.equal(gradient(x, y), torch.zeros_like(y))


@pytest.mark.parametrize("level", [0.0, 0.3, 1e4])
def test_constant_features_have_correlation_zero_and_no_pull(level: float) -> None:
    x, y = samples(9, 5).float(), torch.full((9, 4), level)
    for first, second in ((x, y), (y, x), (y, y)):
        assert float(distance_correlation(first, second)) == 0
        assert not gradient(first, second).any()


def test_features_that_have_diverged_do_not_pass_for_constant() -> None:
    x, y = pairs(9, 5, 4)
    y[2, 1] = math.nan
    assert distance_correlation(x, y).isnan()


def test_identical_samples_among_others() -> None:
    x, y = (each.float() for each in pairs(12, 5, 4))
    x[3], y[3] = x[7], y[7]
    y[0] = y[1]
    assert float(distance_correlation(x, y)) == pytest.approx(plain(x, y), rel=1e-5)
    assert gradient(x, y).isfinite().all()
    assert gradient(x, y).abs().max() > 0


def test_where_the_correlation_is_zero_the_pull_is_finite() -> None:
    """The four corners of a square: the coordinates are exactly independent."""
    x = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    y = torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    assert float(distance_correlation(x, y)) < 1e-3
    assert gradient(x, y).isfinite().all()


def test_the_penalty_weighs_the_correlation_of_images_and_clean_features() -> None:
    images, features = samples(12, 64).sigmoid().view(12, 1, 8, 8), samples(12, 32, 1)
    features = features.view(12, 2, 4, 4).requires_grad_()
    noise = samples(12, 32, 2).view(12, 2, 4, 4)
    nopeek = build("nopeek", image_shape=(1, 8, 8), feature_shape=(2, 4, 4), scale=2.5)
    value = nopeek(images, torch.zeros(12), features, features + noise)
    expected = plain(images.flatten(1), features.detach().flatten(1))
    assert value.item() == pytest.approx(2.5 * expected, rel=1e-12)
    value.backward()
    pull = gradient(images.flatten(1), features.detach().flatten(1))
    assert torch.allclose(features.grad.flatten(1), 2.5 * pull, rtol=1e-10)
