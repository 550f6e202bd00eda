"""The denoiser as a prior: in closed form, beside the best linear one, and in the attack."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from easy_tasks import judge, pairs, smooth, task_on
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.denoiser import denoiser
from cemlib.attacks.optimisation import Descent, Settings, optimisation
from cemlib.attacks.task import Task
from cemlib.config.attacks import Optimisation
from cemlib.data.prepared import to_float
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models.split import SplitModel

STD = 0.1  # of the noise that is removed


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


def shapes(count: int, seed: int) -> Tensor:
    """Two shades of grey with sharp edges, uint8 (count, 1, 16, 16): far from Gaussian."""
    return torch.where(smooth(count, seed) < 128, 64, 192).to(torch.uint8)


def bare_task(place: Path, noise: float, **options: Any) -> tuple[Task, Tensor]:
    """A task on shapes, released with noise and nothing else, and the images to find."""
    victim = Deployed(SplitModel(nn.Identity(), nn.Identity(), (1, 16, 16)), GaussianNoise(noise))
    parts = [pairs(victim, shapes(*part)) for part in ((800, 1), (80, 2), (40, 3))]
    settings = Optimisation(tv_weight=0.0, lr=0.02, iterations=60, **options)
    return task_on(place, victim, parts, settings.model_dump(), judge())


def test_the_maximum_a_posteriori_of_gaussian_images(tmp_path: Path) -> None:
    """With the weight 2 n^2 / s^2 of the exact prior, it has a closed form."""
    noise = 0.05
    task, _ = bare_task(tmp_path, noise)
    mean, covariance = moments(task.own.images)
    # (x - z) / n^2 + (covariance + s^2)^-1 (x - mean) = 0
    spread = covariance.double().numpy() + (STD**2 + noise**2) * np.eye(len(mean))
    released = task.released.flatten(1).double().numpy()
    away = np.linalg.solve(spread, (released - mean.double().numpy()).T).T
    expected = released - noise**2 * away
    assert np.array_equal(expected, expected.clip(0, 1))  # the bounds are not active
    settings = Settings(0, lr=0.01, tv_weight=0.0, denoiser_weight=2 * noise**2 / STD**2)
    descent = Descent(task, task.released, settings, Linear(mean, covariance))
    descent.run_until(400)
    found = descent.images.detach().flatten(1).numpy()
    assert np.abs(found - expected).max() < 2e-3 < 0.1 * np.abs(released - expected).max()


def test_the_denoiser_beats_the_best_linear_one(tmp_path: Path) -> None:
    """On images that it has not seen."""
    task, _ = bare_task(tmp_path, 0.3)
    truth = to_float(shapes(200, 5))
    noisy = truth + STD * torch.randn(truth.shape, generator=torch.Generator().manual_seed(0))
    denoise, linear = denoiser(task, STD), Linear(*moments(task.own.images))
    errors = [F.mse_loss(each(noisy), truth).item() for each in (denoise, linear)]
    assert errors[0] < 0.3 * errors[1] < 0.3 * STD**2
    assert not any(weights.requires_grad for weights in denoise.parameters())


def test_the_prior_lowers_the_error(tmp_path: Path) -> None:
    errors = []
    for weight in (0.0, 4.0):
        task, truth = bare_task(tmp_path / str(weight), 0.15, denoiser_weight=weight)
        errors.append(F.mse_loss(optimisation(task).reconstructions, truth).item())
    assert errors[1] < 0.6 * errors[0]
