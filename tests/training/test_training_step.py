"""The step and its rates, against the published numbers and order, and an epoch by hand."""

import math
from typing import Any

import pytest
import torch
from tiny_study import CPU, LAMBDA, bare_trainer
from torch.nn import functional as F

from cemlib.config.study import TrainConfig
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.seeds import derive, generator
from cemlib.numerics.sums import Monitor
from cemlib.training.step import fork, learning_rate, strength
from cemlib.training.trainer import Trainer

RATES = {0.05: (1, 60), 0.01: (61, 120), 0.002: (121, 180), 0.0004: (181, 210), 0.00008: (211, 240)}


@pytest.mark.parametrize("done", [0.0, 0.5, 0.99])
def test_the_rate_falls_after_each_published_milestone(done: float) -> None:
    settings = TrainConfig()
    assert (settings.schedule, settings.epochs, settings.nesterov) == ("milestones", 240, False)
    for rate, epochs in RATES.items():
        found = [learning_rate(settings, epoch, done) for epoch in epochs]
        assert found == pytest.approx([rate] * 2, rel=1e-12)
    constant = TrainConfig(lr=0.1, milestones=())
    assert {learning_rate(constant, epoch, done) for epoch in range(1, 300)} == {0.1}


def test_strength_for_lambda_16_is_the_published_one() -> None:
    published = [0.32, 1.6, 8, 16, 16]
    assert [strength(16, rate) for rate in RATES] == pytest.approx(published, rel=1e-12)
    assert {strength(16, rate, scaled=False) for rate in RATES} == {16}
    assert strength(16, 4.1e-4) == pytest.approx(16 * 0.001 / 4.1e-4)
    assert strength(16, 4.0999e-4) == 16
    assert strength(0, 0.05) == 0


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
    assert torch.allclose(x.grad, of_task + of_penalty, atol=1e-13)
    assert norms.tolist() == pytest.approx([float(of_task.norm()), float(of_penalty.norm())])


def by_hand(other: Trainer, number: int, sgd: torch.optim.SGD, rates: list[float]) -> float:
    """Carry out an epoch in the published order; return its mean loss."""
    model, surrogate, train = other.deployed.model.train(), other.surrogate, other.data.train
    order = torch.randperm(96, generator=generator(0, "order", number))
    noise, losses = generator(0, "noise", number), []
    torch.manual_seed(derive(0, "dropout", number))
    for rows, lr in zip(order.chunk(len(rates)), rates, strict=True):
        features = model.encoder(train.images[rows].float() / 255)
        released = features + 0.025 * torch.randn(features.shape, generator=noise)
        logs, share = model.head(released).log_softmax(1), other.settings.label_smoothing
        loss = (1 - share) * F.nll_loss(logs, train.labels[rows]) - share * logs.mean()
        sgd.zero_grad()
        if surrogate is not None:
            weight = LAMBDA * 0.001 / lr
            spread = surrogate(features.flatten(1), train.labels[rows])
            spread.backward(retain_graph=True)
            for weights in model.encoder.parameters():
                weights.grad *= weight
            losses.append(weight * spread.item())
        loss.backward()
        losses.append(loss.item())
        sgd.param_groups[0]["lr"] = lr
        sgd.step()
    return sum(losses) / len(rates)


# `gated` acts in the sixth epoch. Of eight, with a warm-up of a half, one cycle has its batches at
# 5/8 and 11/16 of all steps: (1 + cos(pi / 4)) / 2 and (1 + cos(3 pi / 8)) / 2 of the highest rate.
CYCLE = {"schedule": "one_cycle", "epochs": 8, "warm_up": 0.5, "batch_size": 48, "milestones": (1,)}
CYCLED = {6: [0.025 * (1 + 0.5**0.5), 0.025 * (1 + 0.3826834)]}


@pytest.mark.parametrize(
    ("surrogate", "settings", "rates"),
    [
        ("gated", CYCLE, CYCLED),
        ("gated", CYCLE | {"nesterov": True}, CYCLED),
        ("gated", {}, {6: [0.05]}),
        (None, {"milestones": (2,)}, {1: [0.05], 2: [0.05], 3: [0.01]}),
        (None, {"label_smoothing": 0.2}, {1: [0.05]}),
    ],
)
def test_epochs_equal_the_published_updates_by_hand(
    surrogate: str | None, settings: dict[str, Any], rates: dict[int, list[float]]
) -> None:
    subject, other = bare_trainer(surrogate, **settings), bare_trainer(surrogate, **settings)
    parts = [w for module in other.defended.modules.values() for w in module.parameters()]
    nesterov = settings.get("nesterov", False)
    sgd = torch.optim.SGD(parts, lr=1.0, momentum=0.9, weight_decay=5e-4, nesterov=nesterov)
    for number, expected in rates.items():
        row, loss = subject.epoch(number), by_hand(other, number, sgd, expected)
        assert row["lr"] == pytest.approx(expected[-1], rel=1e-6)
        acting = LAMBDA * 0.001 / expected[-1] if surrogate else 0
        assert row["lambda_eff"] == pytest.approx(acting, rel=1e-6)
        assert row["train_loss"] == pytest.approx(loss, rel=1e-4)
    found = [w for module in subject.defended.modules.values() for w in module.parameters()]
    for one, weights in zip(found, parts, strict=True):
        torch.testing.assert_close(one, weights, rtol=1e-3, atol=2e-5)


NAMES = ("features", "loss", "top1")


def monitor(steps: list[tuple[list[float], int]]) -> Monitor:
    watching = Monitor(CPU)
    for values, samples in steps:
        tensors = (torch.tensor(float(value), requires_grad=True) for value in values)
        watching.add(dict(zip(NAMES, tensors, strict=True)), samples)
    return watching


def test_means_are_over_samples_and_start_anew_with_an_epoch() -> None:
    watching = monitor([([1, 2, 0.5], 4), ([3, 5, 1.0], 2)])
    kept = watching._sums._totals
    expected = {"features": 10 / 6, "loss": 3.0, "top1": 4 / 6}
    assert watching.means(1) == pytest.approx(expected)
    watching.add(dict(zip(NAMES, torch.tensor([math.nan, 2, 1.0]), strict=True)), 4)
    watching.begin()
    watching.add(dict(zip(NAMES, torch.tensor([3.0, 5.0, 1.0]), strict=True)), 2)
    assert watching.means(2) == {"features": 3.0, "loss": 5.0, "top1": 1.0}
    # What a replayed step writes to must be what is read.
    assert watching._sums._totals is kept
    assert not kept.requires_grad


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_first_fault_is_named_though_all_later_steps_are_spoilt(bad: float) -> None:
    steps = [([1, 1, 1], 4), ([1, bad, 1], 4), ([bad, bad, bad], 4)]
    with pytest.raises(DivergedError, match="epoch 7, batch 2: loss is not finite"):
        monitor(steps).means(7)
    with pytest.raises(DivergedError, match="epoch 1, batch 1: features is not finite"):
        monitor(steps[2:]).means(1)
