"""Misfits against densities summed by hand, and against the releases that they explain."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from cemlib.defences.channels import build
from cemlib.numerics.seeds import generator


def draw(name: str, *size: int) -> Tensor:
    return torch.randn(*size, dtype=torch.float64, generator=generator(0, name))


def enumerated(z: float, seen: float, rate: float, std: float, n: int) -> float:
    """Density of the mean of n releases of one feature under dropout, over all counts."""
    total = 0.0
    for held in range(n + 1):
        weight = math.comb(n, held) * (1 - rate) ** held * rate ** (n - held)
        total += weight * stats.norm.pdf(seen, held / n * z, std / math.sqrt(n))
    return total


@pytest.mark.parametrize("n", [1, 4, 16])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("noise_std", [0.0, 0.05, 0.4])
def test_dropout_by_enumeration(noise_std: float, rate: float, n: int) -> None:
    channel = build("dropout", noise_std=noise_std, rate=rate)
    z = draw("z", 6, 2, 2)
    seen = channel(z, generator(0, "noise"), queries=n)
    std = max(noise_std, 0.01)
    expected = [
        -2
        * std**2
        / n
        * sum(math.log(enumerated(a, b, rate, std, n)) for a, b in zip(*rows, strict=True))
        for rows in zip(z.flatten(1).tolist(), seen.flatten(1).tolist(), strict=True)
    ]
    constant = 4 * std**2 / n * math.log(2 * math.pi * std**2 / n)  # of four Gaussian densities
    found = channel.misfit(z, seen, queries=n) + constant
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)


def test_dropout_far_from_every_release_is_finite() -> None:
    channel = build("dropout", noise_std=0.0)
    z = torch.full((2, 3), 50.0, requires_grad=True)
    value = channel.misfit(z, torch.full((2, 3), -70.0), queries=4)
    assert value.isfinite().all()
    (gradient,) = torch.autograd.grad(value.sum(), z)
    assert gradient.isfinite().all()


def test_laplace_noise_alone_in_units_of_its_variance() -> None:
    channel = build("local_dp", noise_std=0.0, epsilon=5.0, clip=2.0)
    z, seen = draw("z", 5, 7), draw("seen", 5, 7)
    clipped, b = channel.shape(z).numpy(), 2 * 2.0 / 5.0
    log_density = stats.laplace.logpdf(seen.numpy(), clipped, b).sum(1) + 7 * math.log(2 * b)
    np.testing.assert_allclose(
        channel.misfit(z, seen).numpy(), -2 * (2 * b**2) * log_density, rtol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "options", "queries", "order"),
    [
        ("noise", {"noise_std": 0.3}, 4, None),
        ("local_dp", {"noise_std": 0.0, "mechanism": "gaussian"}, 1, 2),
        ("local_dp", {"noise_std": 0.1, "mechanism": "gaussian"}, 4, 2),
        ("local_dp", {"noise_std": 0.1, "mechanism": "laplace"}, 1, 1),
        ("local_dp", {"noise_std": 0.0, "mechanism": "laplace"}, 4, 1),
    ],
)
def test_other_releases_leave_squares_of_the_errors_clipped_or_not(
    name: str, options: dict[str, Any], queries: int, order: int | None
) -> None:
    channel = build(name, **options, **({"clip": 2.0} if order else {}))
    z, seen = draw("z", 5, 7), draw("seen", 5, 7)
    norms = np.linalg.norm(z.numpy(), order, axis=1, keepdims=True) if order else 2.0
    clipped = z.numpy() * np.minimum(1, 2 / norms)
    found = channel.misfit(z, seen, queries).numpy()
    np.testing.assert_allclose(found, ((clipped - seen.numpy()) ** 2).sum(1), rtol=1e-12)


def test_topk_by_hand() -> None:
    """Kept are 3 and -2; of the others only -2.5 lies above the border 2, by one half."""
    channel = build("topk", noise_std=0.1, keep=0.5)
    z, seen = torch.tensor([[2.0, -2.5, 1.0, 1.9]]), torch.tensor([[3.0, 0.1, -2.0, 0.0]])
    assert channel.misfit(z, seen).tolist() == pytest.approx([1 + 0.25 + 9 + 0])


CASES: list[tuple[str, dict[str, Any]]] = [
    ("noise", {"noise_std": 0.3}),
    ("dropout", {"noise_std": 0.0}),
    ("dropout", {"noise_std": 0.3, "rate": 0.4}),
    ("topk", {"noise_std": 0.3, "keep": 0.4}),
    ("local_dp", {"noise_std": 0.0, "epsilon": 5.0, "clip": 1.0}),
    ("local_dp", {"noise_std": 0.3, "epsilon": 5.0, "clip": 9.0, "mechanism": "gaussian"}),
]


@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_gradients_of_the_misfit(name: str, options: dict[str, Any], queries: int) -> None:
    channel, z = build(name, **options), draw("z", 4, 5)
    seen = channel(z, generator(0, "noise"), queries=queries)
    guess = (z + 0.02 * draw("step", 4, 5)).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda guess: channel.misfit(guess, seen, queries), [guess], atol=1e-6
    )


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("noise", {"noise_std": 0.3}),
        ("dropout", {"noise_std": 0.3}),
        ("dropout", {"noise_std": 0.01, "rate": 0.5}),
        ("local_dp", {"noise_std": 0.0, "epsilon": 50.0}),
        ("local_dp", {"noise_std": 0.0, "epsilon": 50.0, "mechanism": "gaussian"}),
    ],
)
def test_the_expected_gradient_at_the_truth_is_zero(
    name: str, options: dict[str, Any], queries: int
) -> None:
    """Of a log-likelihood it is, which ties the misfit to the channel's own releases."""
    channel = build(name, **options)
    truth = torch.tensor([0.5, -0.2, 0.05, 1.0], dtype=torch.float64).expand(40_000, 4)
    z = truth.clone().requires_grad_()
    value = channel.misfit(z, channel(truth, generator(0, "noise"), queries=queries), queries)
    (scores,) = torch.autograd.grad(value.sum(), z)
    assert (scores.mean(0).abs() <= 5 * scores.std(0) / math.sqrt(40_000)).all()
    assert (scores.std(0) > 0).all()
