"""The published decoder: its schedule, its modes, and what it learns."""

from pathlib import Path
from typing import Any

import pytest
import torch
from easy_tasks import OPTIONS, easy_task, first_decoder, same, share_off
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.learning import Regression
from cemlib.attacks.mean_image import mean_image
from cemlib.attacks.residual import residual
from cemlib.attacks.task import Task
from cemlib.config.attacks import Residual
from cemlib.numerics.seeds import generator


def residual_task(place: Path, **given: Any) -> tuple[Task, Tensor]:
    return easy_task(place, Residual, **(OPTIONS | given))


def test_the_cosine_is_torchs(tmp_path: Path) -> None:
    training = Regression(residual_task(tmp_path, epochs=50, lr=1e-3)[0])
    parameter = nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.Adam([parameter], lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=49, eta_min=1e-5)
    for epoch in range(1, 51):
        for step in (1, training.steps):
            rate = training.rate((epoch - 1) * training.steps + step)
            assert rate == pytest.approx(schedule.get_last_lr()[0], rel=1e-6)
        optimiser.step()
        schedule.step()
    assert Regression(residual_task(tmp_path, epochs=1, lr=1e-3)[0]).rate(1) == 1e-3


def test_an_easy_victim_is_inverted(tmp_path: Path) -> None:
    task, targets = residual_task(tmp_path)
    found = residual(task)
    error = F.mse_loss(found.reconstructions, targets).item()
    ceiling = F.mse_loss(mean_image(task).reconstructions, targets).item()
    assert error < 0.7 * ceiling
    rows = found.history
    assert [row["epoch"] for row in rows] == list(range(1, 21))
    assert rows[-1]["train_mse"] < 0.5 * rows[0]["train_mse"]
    assert rows[0]["lr"] == pytest.approx(0.01)
    assert rows[-1]["lr"] == pytest.approx(1e-5)


def test_the_held_out_error_is_that_of_the_last_decoder(tmp_path: Path) -> None:
    task, _ = residual_task(tmp_path, std=0.05, epochs=2)
    found = residual(task)
    model, held_out = first_decoder().eval(), task.held_out
    model.load_state_dict(found.state)
    noise = torch.randn(held_out.features.shape, generator=generator(0, "attack_val_noise"))
    with torch.no_grad():
        answers = model(held_out.features + 0.05 * noise)
    expected = F.mse_loss(answers, held_out.images.float() / 255).item()
    assert found.history[-1]["val_mse"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("queries", [1, 4])
def test_one_step_is_adams_on_the_mean_squared_error(tmp_path: Path, queries: int) -> None:
    """One epoch of one batch, with the noise of its stream and Adam's first step written out.

    The 97th image is left over for a batch of one, which is left out.
    It trains on means of as many releases as it will see.
    """
    task, _ = residual_task(tmp_path, train=97, std=0.5, epochs=1, batch_size=96, queries=queries)
    outcome, model = residual(task), first_decoder()
    found = outcome.state
    rows = torch.randperm(97, generator=generator(0, "attack_order", 1))[:96]
    noise = torch.randn((96, 1, 4, 4), generator=generator(0, "attack_noise", 1))
    answers = model(task.own.features[rows] + 0.5 / queries**0.5 * noise)
    error = F.mse_loss(answers, task.own.images[rows].float() / 255)
    error.backward()
    assert outcome.history[0]["train_mse"] == pytest.approx(error.item(), rel=1e-4)
    expected = []
    trained = ((name, each) for name, each in model.named_parameters() if each.requires_grad)
    for name, weights in trained:
        gradient = weights.grad + 1e-4 * weights
        expected.append((name, weights - 0.01 * gradient / (gradient.abs() + 1e-8)))
    assert share_off(found, expected) < 0.01


def test_half_precision_trains_and_is_scored_in_full(tmp_path: Path) -> None:
    low, _ = residual_task(tmp_path, epochs=2, precision="bfloat16")
    full, _ = residual_task(tmp_path, epochs=2)
    ours, theirs = residual(low), residual(full)
    assert ours.reconstructions.dtype == torch.float32
    assert not same(ours, theirs)
    for a, b in zip(ours.history, theirs.history, strict=True):
        assert a["val_mse"] == pytest.approx(b["val_mse"], rel=0.05)
