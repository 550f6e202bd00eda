"""One backward pass of the sum against the published two-pass order, in float64."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.models import SplitModel, build
from cemlib.surrogates import Surrogate
from cemlib.surrogates import build as build_surrogate
from cemlib.training.objective import fork

LAMBDA_EFF = 0.32
NOISE = 0.025 * torch.randn(24, 8, 4, 4, generator=torch.Generator().manual_seed(6)).double()
Gradients = list[Tensor | None]


def test_fork_adds_the_branches_gradients_and_measures_them() -> None:
    x = torch.linspace(-2, 2, 24, dtype=torch.float64).reshape(3, 2, 4).requires_grad_()
    task, penalty, norms = fork(x, 7.0)
    assert torch.equal(task, x)
    assert torch.equal(penalty, x.flatten(1))
    weights = torch.arange(24.0, dtype=torch.float64).reshape(3, 2, 4)
    (task.sin() * weights).sum().backward(retain_graph=True, inputs=[x])
    assert torch.allclose(x.grad, weights * x.detach().cos(), atol=1e-14)
    x.grad = None
    ((task.sin() * weights).sum() + penalty.square().sum()).backward()
    of_task, of_penalty = weights * x.detach().cos(), 7 * 2 * x.detach()
    assert x.grad is not None
    assert torch.allclose(x.grad, of_task + of_penalty, atol=1e-13)
    assert norms.tolist() == pytest.approx([float(of_task.norm()), float(of_penalty.norm())])


def network(name: str) -> tuple[SplitModel, Surrogate]:
    torch.manual_seed(0)
    model = build("small", num_classes=3, image_size=16, cut=4, mean=(0.5,), std=(0.3,))
    surrogate = build_surrogate(name, dim=128, num_classes=3, noise_std=0.025)
    return model.double().train(), surrogate.double()


def batch() -> tuple[Tensor, Tensor]:
    images = torch.rand(24, 1, 16, 16, generator=torch.Generator().manual_seed(1)).double()
    return images, torch.arange(24) % 3


def passes(model: SplitModel, images: Tensor) -> tuple[Tensor, Tensor]:
    """Features and logits, with fixed dropout and noise."""
    torch.manual_seed(5)
    features = model.encoder(images)
    return features, model.head(features + NOISE)


def one_pass(model: SplitModel, surrogate: Surrogate) -> None:
    images, labels = batch()
    torch.manual_seed(5)
    task, branch, _ = fork(model.encoder(images), LAMBDA_EFF)
    surrogate.reseed(3)
    penalty = surrogate(branch, labels)
    (F.cross_entropy(model.head(task + NOISE), labels) + penalty).backward()


def two_passes(model: SplitModel, surrogate: Surrogate) -> None:
    """Published order: penalty, cache the encoder's gradients, zero them, task, add."""
    images, labels = batch()
    features, logits = passes(model, images)
    surrogate.reseed(3)
    inside = list(model.encoder.parameters())
    surrogate(features.flatten(1), labels).backward(retain_graph=True)
    cached = [LAMBDA_EFF * weights.grad for weights in inside if weights.grad is not None]
    model.zero_grad(set_to_none=True)
    F.cross_entropy(logits, labels).backward()
    assert len(cached) == len(inside)
    for weights, extra in zip(inside, cached, strict=True):
        assert weights.grad is not None
        weights.grad += extra


def gradients(module: nn.Module) -> Gradients:
    return [None if w.grad is None else w.grad.clone() for w in module.parameters()]


def assert_close(found: Gradients, expected: Gradients) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert torch.allclose(one, other, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", ["gated", "slot"])
def test_one_backward_equals_the_published_two_pass_order(name: str) -> None:
    model, surrogate = network(name)
    one_pass(model, surrogate)
    found = gradients(model), gradients(surrogate)
    model, surrogate = network(name)
    two_passes(model, surrogate)
    assert_close(found[0], gradients(model))
    assert_close(found[1], gradients(surrogate))
    assert any(g is not None and g.abs().max() > 0 for g in found[1])


def test_the_surrogates_own_parameters_get_factor_one() -> None:
    model, surrogate = network("gated")
    one_pass(model, surrogate)
    found = gradients(surrogate)
    model, surrogate = network("gated")
    images, labels = batch()
    surrogate(passes(model, images)[0].flatten(1), labels).backward()
    assert_close(found, gradients(surrogate))


def test_the_encoders_pull_is_proportional_to_the_strength() -> None:
    pulls = []
    for strength in (1.0, 3.0):
        model, surrogate = network("gated")
        images, labels = batch()
        features = passes(model, images)[0]
        surrogate(fork(features, strength)[1], labels).backward()
        pulls.append(gradients(model.encoder))
    for one, three in zip(*pulls, strict=True):
        assert one is not None
        assert three is not None
        assert torch.allclose(3 * one, three, rtol=1e-9, atol=1e-14)
