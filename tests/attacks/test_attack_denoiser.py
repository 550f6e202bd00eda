"""The denoiser as a prior: in closed form, beside the best linear one, and in the attack."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from easy_tasks import judge, pairs, same, smooth, task_on
from test_attack_optimisation import Counting
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks import denoiser as denoising
from cemlib.attacks.denoiser import denoiser, posterior_weight
from cemlib.attacks.optimisation import WEIGHTS, Descent, Settings, optimisation
from cemlib.attacks.task import Task
from cemlib.config.attacks import Decoder, Optimisation
from cemlib.data.prepared import to_float
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models.layers import SparseCoding
from cemlib.models.split import SplitModel
from cemlib.numerics.divergence import DivergedError

STD = 0.1  # of the noise that is removed
SHORT = denoising.OPTIONS | {"epochs": 3, "blocks": 1, "width": 8}


class Linear(nn.Module):
    """The best linear denoiser of images with these moments."""

    def __init__(self, mean: Tensor, covariance: Tensor) -> None:
        super().__init__()
        self.mean = mean
        self.matrix = torch.linalg.solve(covariance + STD**2 * torch.eye(len(mean)), covariance)

    def forward(self, images: Tensor) -> Tensor:
        return (self.mean + (images.flatten(1) - self.mean) @ self.matrix).view_as(images)


def moments(images: Tensor) -> tuple[Tensor, Tensor]:
    flat = to_float(images).flatten(1)
    return flat.mean(0), torch.cov(flat.T, correction=0)


def shapes(count: int, seed: int, channels: int = 1) -> Tensor:
    """Two shades of grey with sharp edges, uint8 (count, channels, 16, 16): far from Gaussian."""
    return torch.where(smooth(count, seed, channels) < 128, 64, 192).to(torch.uint8)


def bare_task(
    place: Path,
    noise: float,
    *,
    encoder: nn.Module | None = None,
    channels: int = 1,
    images: Callable[[int, int, int], Tensor] = shapes,
    **options: Any,
) -> tuple[Task, Tensor]:
    """A task on images that a client releases, by default as they are, and the images to find."""
    model = SplitModel(encoder or nn.Identity(), nn.Identity(), (channels, 16, 16))
    victim = Deployed(model, GaussianNoise(noise))
    parts = [pairs(victim, images(*part, channels)) for part in ((800, 1), (80, 2), (40, 3))]
    settings = Optimisation(**{"tv_weight": 0.0, "lr": 0.02, "iterations": 60} | options)
    return task_on(place, victim, parts, settings.model_dump(), judge(channels))


def test_the_most_probable_image_in_closed_form(tmp_path: Path) -> None:
    """Of Gaussian images in colour, behind a client that tells averages, with four releases."""
    client = {"encoder": nn.AvgPool2d(2), "channels": 3, "images": smooth}
    task, _ = bare_task(tmp_path, 0.1, **client, queries=4)
    mean, covariance = moments(task.own.images)
    # A'(A x - z) / s^2 + (covariance + t^2)^-1 (x - mean) = 0, s^2 that of the mean release's noise
    average = torch.eye(3 * 16 * 16).view(-1, 3, 16, 16)
    a = F.avg_pool2d(average, 2).flatten(1).T.double().numpy()
    precision = np.linalg.inv(covariance.double().numpy() + STD**2 * np.eye(len(mean)))
    released, noise = task.released.flatten(1).double().numpy(), 0.1**2 / 4
    sides = released @ a / noise + precision @ mean.double().numpy()
    expected = np.linalg.solve(a.T @ a / noise + precision, sides.T).T
    assert np.array_equal(expected, expected.clip(0, 1))  # the bounds are not active
    settings = Settings(0, 0.005, tv_weight=0.0, denoiser_weight=posterior_weight(task, STD))
    descent = Descent(task, task.released, settings, Linear(mean, covariance))
    descent.run_until(800)
    found = descent.images.detach().flatten(1).numpy()
    assert np.abs(found - expected).max() < 2e-3


def test_the_denoiser_beats_the_best_linear_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small one does so on images that it has not seen."""
    monkeypatch.setattr(denoising, "OPTIONS", denoising.OPTIONS | {"blocks": 1, "width": 16})
    task, _ = bare_task(tmp_path, 0.3)
    truth = to_float(shapes(200, 5))
    noisy = truth + STD * torch.randn(truth.shape, generator=torch.Generator().manual_seed(0))
    denoise, linear = denoiser(task, STD), Linear(*moments(task.own.images))
    errors = [F.mse_loss(each(noisy), truth).item() for each in (denoise, linear)]
    assert errors[0] < 0.3 * errors[1] < 0.3 * STD**2
    assert not any(weights.requires_grad for weights in denoise.parameters())


def test_the_denoiser_knows_nothing_of_a_sparse_coding(tmp_path: Path) -> None:
    """Its releases are images, whatever the client does."""
    coded = nn.Sequential(nn.AvgPool2d(4), SparseCoding(16), nn.Sigmoid())
    task, _ = bare_task(tmp_path, 0.3, encoder=coded)
    assert task.victim.coding is not None
    assert denoising.denoising(task, STD).victim.coding is None


def test_its_options_are_the_defaults_of_the_decoder() -> None:
    plain = Decoder().model_dump()
    assert {name: plain[name] for name in denoising.OPTIONS} == denoising.OPTIONS


def test_without_noise_none_is_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, _ = bare_task(tmp_path, 0.0, denoiser_weight=1.0, iterations=3)
    assert optimisation(task).state["denoiser_weight"] == 0
    assert "denoiser epoch" not in capsys.readouterr().err


def test_the_prior_lowers_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A strong budget takes a multiple of a weight that is too small."""
    monkeypatch.setattr(denoising, "OPTIONS", SHORT)
    errors, noise = [], 0.15
    for weight in (0.0, 0.1):
        options = {"denoiser_weight": weight, "denoiser_noise": 0.12, "budget": "strong"}
        options["iterations"] = 30
        task, truth = bare_task(tmp_path / str(weight), noise, **options)
        found = optimisation(task)
        errors.append(F.mse_loss(found.reconstructions, truth).item())
    assert errors[1] < 0.6 * errors[0]
    expected = WEIGHTS[-1] * 0.1 * 2 * noise**2 / 0.12**2  # as many features as pixels
    assert found.state["denoiser_weight"].item() == pytest.approx(expected)


def test_the_denoiser_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An attack that is interrupted afterwards ends with the same bits."""
    monkeypatch.setattr(denoising, "OPTIONS", SHORT)
    task, _ = bare_task(tmp_path / "alone", 0.1, denoiser_weight=1.0, iterations=3)
    expected = optimisation(task)
    assert "denoiser epoch 1/3" in capsys.readouterr().err
    killed, _ = bare_task(tmp_path / "killed", 0.1, denoiser_weight=1.0, iterations=3)
    dying = Deployed(killed.victim.model, Counting(0.1, last=0))
    with pytest.raises(KeyboardInterrupt):
        optimisation(replace(killed, victim=dying))
    capsys.readouterr()
    assert same(optimisation(killed), expected)
    assert "denoiser epoch" not in capsys.readouterr().err


def test_a_denoiser_that_diverges_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denoising, "OPTIONS", SHORT | {"lr": 1e30})
    with pytest.raises(DivergedError, match=r"^denoiser: epoch 1: "):
        denoiser(bare_task(tmp_path, 0.1)[0], STD)
