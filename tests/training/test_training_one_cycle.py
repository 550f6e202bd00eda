"""Trainings with one cycle of the learning rate: every step has its own rate and strength."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tape import TapeReplay
from tiny_study import blob_data, tiny_plan
from torch.nn import functional as F

import cemlib.training.step
from cemlib.config.study import TrainConfig
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models import build
from cemlib.seeds import derive, generator
from cemlib.surrogates import build as build_surrogate
from cemlib.training.schedule import learning_rate
from cemlib.training.setup import Setup
from cemlib.training.trainer import Defended, Trainer

LAMBDA = 16.0


def trainer(surrogate: str | None = None, **settings: Any) -> Trainer:
    """A trainer on 96 images, in two batches unless told otherwise."""
    data = blob_data(train=96)
    torch.manual_seed(0)
    model = build("small", num_classes=3, image_size=16, cut=4, mean=data.mean, std=data.std)
    penalty = None
    if surrogate is not None:
        penalty = build_surrogate(surrogate, dim=128, num_classes=3, noise_std=0.025)
    config = TrainConfig(**({"batch_size": 48, "schedule": "one_cycle"} | settings))
    return Trainer(
        config, Defended(Deployed(model, GaussianNoise(0.025)), penalty, LAMBDA), data, 0
    )


@pytest.mark.parametrize(
    ("epoch", "done", "rate"),
    [
        *((1, 0.0, 0.0), (1, 0.5, 0.25), (2, 0.0, 0.5), (2, 0.5, 0.75), (3, 0.0, 1.0)),
        # (1 + cos(pi / 3)) / 2, then half way down, then (1 + cos(2 pi / 3)) / 2
        *((3, 2 / 3, 0.75), (4, 0.0, 0.5), (4, 1 / 3, 0.25), (4, 1.0, 0.0)),
    ],
)
def test_the_rate_follows_one_cycle_over_all_epochs(epoch: int, done: float, rate: float) -> None:
    settings = TrainConfig(epochs=4, lr=0.2, schedule="one_cycle", warm_up=0.5, milestones=(1,))
    assert learning_rate(settings, epoch, done) == pytest.approx(0.2 * rate, abs=1e-15)


def test_milestones_stay_the_default() -> None:
    settings = TrainConfig()
    assert (settings.schedule, settings.nesterov) == ("milestones", False)
    assert learning_rate(settings, 61, 0.5) == pytest.approx(0.01)


@pytest.mark.parametrize("nesterov", [False, True])
def test_an_epoch_by_hand(nesterov: bool) -> None:
    """Sixth epoch of eight, two batches of `gated`: at a share of 5/8 and of 11/16 of all steps.

    With a warm-up of a half the rates are (1 + cos(pi / 4)) / 2 and (1 + cos(3 pi / 8)) / 2.
    """
    settings = {"epochs": 8, "warm_up": 0.5, "lr": 0.05, "nesterov": nesterov}
    subject, other = trainer("gated", **settings), trainer("gated", **settings)
    row = subject.epoch(6)
    model, surrogate, train = other.deployed.model.train(), other.surrogate, other.data.train
    assert surrogate is not None
    parts = [*model.parameters(), *surrogate.parameters()]
    sgd = torch.optim.SGD(parts, lr=1.0, momentum=0.9, weight_decay=5e-4, nesterov=nesterov)
    order = torch.randperm(96, generator=generator(0, "order", 6))
    noise, losses = generator(0, "noise", 6), []
    torch.manual_seed(derive(0, "dropout", 6))
    surrogate.reseed(derive(0, "surrogate", 6))
    rates = [0.025 * (1 + 0.5**0.5), 0.025 * (1 + 0.3826834)]
    for rows, lr in zip((order[:48], order[48:]), rates, strict=True):
        weight = LAMBDA * 0.001 / lr
        features = model.encoder(train.images[rows].float() / 255)
        released = features + 0.025 * torch.randn(features.shape, generator=noise)
        spread = surrogate(features.flatten(1), train.labels[rows])
        ce = F.cross_entropy(model.head(released), train.labels[rows])
        losses.append((weight * spread + ce).item())
        sgd.zero_grad()
        spread.backward(retain_graph=True)
        for weights in model.encoder.parameters():
            weights.grad *= weight
        ce.backward()
        sgd.param_groups[0]["lr"] = lr
        sgd.step()
    assert row["lr"] == pytest.approx(rates[1], rel=1e-6)
    assert row["lambda_eff"] == pytest.approx(LAMBDA * 0.001 / rates[1], rel=1e-6)
    assert row["train_loss"] == pytest.approx(sum(losses) / 2, rel=1e-4)
    assert abs(losses[0] - losses[1]) > 1e-3
    found = [*subject.deployed.model.parameters(), *subject.surrogate.parameters()]
    for one, expected in zip(found, parts, strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-3, atol=2e-5)


def test_a_first_step_moves_nothing() -> None:
    """The cycle begins at a rate of 0; its second step does not."""
    subject = trainer(batch_size=96, epochs=4, warm_up=0.5)
    before = [weights.clone() for weights in subject.deployed.model.parameters()]
    rates = [subject.epoch(1)["lr"]]
    assert all(map(torch.equal, before, subject.deployed.model.parameters()))
    rates.append(subject.epoch(2)["lr"])
    assert not any(map(torch.equal, before, subject.deployed.model.parameters()))
    assert rates == pytest.approx([0.0, 0.025])


def replayable(place: Path, defence: str) -> Trainer:
    settings = {"batch_size": 16, "epochs": 8, "schedule": "one_cycle", "nesterov": True}
    setup, data = Setup(tiny_plan(place, **settings).study, defence, 0), blob_data()
    return setup.trainer(data, setup.network(data))


@pytest.mark.parametrize("defence", ["noise", "clustering", "by_dropout", "everything", "unscaled"])
def test_replayed_steps_train_as_called_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defence: str
) -> None:
    """Up to the rounding of rates, which a replay reads in float32."""
    called = replayable(tmp_path, defence)
    expected = [called.epoch(number) for number in range(1, 5)]
    monkeypatch.setattr(cemlib.training.step, "Replay", TapeReplay)
    before, replayed = TapeReplay.count, replayable(tmp_path, defence)
    for number, row in enumerate(expected, 1):
        other = replayed.epoch(number)
        numbers = {k: v for k, v in row.items() if v is not None and k != "seconds"}
        assert {k: other[k] for k in numbers} == pytest.approx(numbers, rel=1e-3, abs=1e-5)
    assert TapeReplay.count > before + 10
    models = called.deployed.model, replayed.deployed.model
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)
