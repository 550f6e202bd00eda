"""The most probable input of a sparse coding: its minimum by scipy, and what noise leaves of it."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit
from torch import Tensor

from cemlib.models.layers import SparseCoding
from cemlib.models.uncoding import LEAST_VARIANCE, Uncoding

DIM = 12


def coding(threshold: float = 0.01) -> SparseCoding:
    torch.manual_seed(0)
    return SparseCoding(DIM, threshold)


def inputs(count: int, seed: int) -> Tensor:
    """Correlated features of different sizes, whose codes saturate the logistic function."""
    draws = torch.Generator().manual_seed(seed)
    mix = torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(9))
    return 0.3 + torch.randn(count, DIM, generator=draws) @ mix / 2


def released(layer: SparseCoding, u: Tensor, std: float) -> Tensor:
    with torch.no_grad():
        clean = layer(u).sigmoid()
    return clean + std * torch.randn(u.shape, generator=torch.Generator().manual_seed(3))


def fitted(layer: SparseCoding, std: float) -> Uncoding:
    model = Uncoding(DIM)
    model.fit(layer, inputs(1000, 1), std)
    return model


@pytest.mark.parametrize("std", [0.05, 0.3])
def test_its_cost_is_near_the_minimum_that_scipy_finds(std: float) -> None:
    """By the formula, in float64; the minimum need not be unique."""
    layer = coding()
    own, z = inputs(1000, 1).double().numpy(), released(layer, inputs(20, 2), std)
    mean, covariance = own.mean(0), np.cov(own.T, bias=True)
    precision = np.linalg.inv(
        covariance + LEAST_VARIANCE * np.trace(covariance) / DIM * np.eye(DIM)
    )
    weight = layer.weight.detach().double().numpy()

    def cost(u: np.ndarray, seen: np.ndarray) -> float:
        codes = u @ weight.T
        soft = np.sign(codes) * np.maximum(np.abs(codes) - layer.threshold, 0)
        misfit = np.square(seen - expit(soft @ weight)).sum() / std**2
        return float(misfit + (u - mean) @ precision @ (u - mean))

    found = fitted(layer, std)(z).double().numpy()
    costs = [
        [cost(u, seen), minimize(cost, mean, (seen,), tol=1e-9).fun, cost(mean, seen)]
        for u, seen in zip(found, z.double().numpy(), strict=True)
    ]
    ours, scipys, start = np.mean(costs, 0)
    assert ours < 1.02 * scipys < 0.5 * start


def test_its_gradient_is_that_of_the_cost() -> None:
    """By autograd, with a threshold that sets many codes to zero."""
    layer, std = coding(0.5), 0.2
    model, z = fitted(layer, std), released(layer, inputs(20, 2), std)
    e = torch.randn(20, DIM, generator=torch.Generator().manual_seed(4), requires_grad=True)
    misfit = (z - layer(model.mean + e @ model.root.T).sigmoid()).square().sum() / std**2
    (misfit + e.square().sum()).backward()
    with torch.no_grad():
        _, downhill = model._gradient(e, z)
    torch.testing.assert_close(downhill, -e.grad / 2, atol=1e-3, rtol=1e-4)


def test_little_noise_leaves_the_input() -> None:
    layer, u = coding(), inputs(50, 2)
    model = fitted(layer, 0.0)
    assert (model(released(layer, u, 0.0)) - u).square().mean() < 0.1 * u.var()


def test_much_noise_leaves_the_mean() -> None:
    layer = coding()
    found = fitted(layer, 100.0)(released(layer, inputs(50, 2), 100.0))
    torch.testing.assert_close(found, inputs(1000, 1).mean(0).expand(50, -1), atol=0.1, rtol=0)


def test_constant_inputs_are_returned() -> None:
    layer, u = coding(), torch.full((7, DIM), 0.4)
    model = Uncoding(DIM)
    model.fit(layer, u, 0.1)
    torch.testing.assert_close(model(released(layer, u, 0.1)), u, atol=1e-5, rtol=0)
