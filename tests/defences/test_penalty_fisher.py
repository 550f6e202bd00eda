"""The Fisher information against closed forms and whole Jacobians, and its pull on an encoder."""

import math

import pytest
import torch
from penalties import build
from torch import Tensor, nn

from cemlib.defences.penalties import Penalty

IMAGES, FEATURES = (1, 4, 4), (2, 3, 3)
LABELS = torch.zeros(5, dtype=torch.long)


def fisher(scale: float = 1.0) -> Penalty:
    return build("fisher", image_shape=IMAGES, feature_shape=FEATURES, scale=scale)


def images() -> Tensor:
    numbers = torch.Generator().manual_seed(0)
    return torch.rand(len(LABELS), *IMAGES, generator=numbers, dtype=torch.float64)


def encoder() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh()).double()


def found(module: nn.Module, scale: float = 1.0) -> Tensor:
    x = images().requires_grad_()
    z = module(x)
    return fisher(scale)(x, LABELS, z, z)


def test_a_rotation_has_the_information_of_its_scale() -> None:
    """z = c Q x with orthogonal rows has |J^T v|^2 = c^2 D for all signs v."""
    rows = torch.linalg.qr(torch.randn(16, 16, dtype=torch.float64))[0][:9]
    x = images().requires_grad_()
    z = 3 * (x.flatten(1) @ rows.T).view(-1, 1, 3, 3)
    expected = 0.7 * 3**2 * 9 / 16
    assert fisher(0.7)(x, LABELS, z, z).item() == pytest.approx(expected, rel=1e-12)


def test_the_mean_over_signs_is_that_of_the_whole_jacobians() -> None:
    module = encoder()
    each = [torch.autograd.functional.jacobian(module, x[None]) for x in images()]
    expected = sum(jacobian.square().sum().item() for jacobian in each) / len(each) / 16
    torch.manual_seed(2)
    draws = torch.stack([found(module) for _ in range(2000)])
    error = draws.std() / math.sqrt(len(draws))
    assert abs(draws.mean().item() - expected) < 4 * error.item()
    assert error.item() < 0.01 * expected


def test_its_pull_on_the_weights_is_that_of_finite_differences() -> None:
    module, start = encoder(), torch.randn(2, 1, 2, 2, dtype=torch.float64, requires_grad=True)

    def penalty(weight: Tensor) -> Tensor:
        torch.manual_seed(3)
        x = images().requires_grad_()
        z = torch.func.functional_call(module, {"0.weight": weight}, (x,))
        return fisher()(x, LABELS, z, z)

    assert torch.autograd.gradcheck(penalty, [start])


def test_half_precision_features_are_differentiated_in_single() -> None:
    module = encoder().float()
    x = images().float().requires_grad_()
    torch.manual_seed(4)
    z = module(x)
    expected = fisher()(x, LABELS, z, z)
    torch.manual_seed(4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = module(x)
        low = fisher()(x, LABELS, z.float(), z.float())
    assert low.dtype == torch.float32
    assert low.item() == pytest.approx(expected.item(), rel=0.02)
