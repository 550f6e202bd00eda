"""An attacker who knows the class: its releases, its linear reconstruction, and what it gains."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from easy_tasks import Constant, Mixer, pairs, random_images, task_on
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.decoder import decoder
from cemlib.attacks.known_class import with_class
from cemlib.attacks.task import Task
from cemlib.attacks.wiener import linear_estimate
from cemlib.config.attacks import Decoder
from cemlib.defences.channels import CHANNELS, build
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models.split import SplitModel

OPTIONS = {"epochs": 3, "batch_size": 32, "blocks": 1, "width": 8}


def images_of_classes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return faint random images, each with the third of its class brightened, and the classes."""
    labels = torch.arange(count) % 3
    images = random_images(count, seed) // 4
    for label in range(3):
        images[labels == label, :, :, 5 * label : 5 * label + 5] += 120
    return images, labels


def tasks(place: Path, encoder: nn.Module, std: float) -> tuple[Task, Task, Tensor]:
    """Return the tasks of an attacker without and with the classes, and the images to find."""
    victim = Deployed(SplitModel(encoder, nn.Identity(), (8, 4, 4)), GaussianNoise(std))
    splits = [images_of_classes(*part) for part in ((900, 0), (60, 1), (90, 2))]
    parts = [pairs(victim, *split) for split in splits]
    options = Decoder(**OPTIONS).model_dump()
    head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 16, 3))
    judge = SplitModel(nn.Identity(), head, (1, 8, 16)).eval()
    task, truth = task_on(place, victim, parts, options, judge)
    return task, with_class(task, splits[2][1], 3), truth


@pytest.mark.parametrize("name", CHANNELS)
def test_the_release_is_the_same_and_the_class_is_released_unchanged(
    tmp_path: Path, name: str
) -> None:
    channel = build(name, noise_std=0.2)
    plain, told, _ = tasks(tmp_path, Mixer(), std=0.2)
    victim = replace(plain.victim, channel=channel)
    options = plain.options | {"queries": 2}
    plain, told = (replace(each, victim=victim, options=options) for each in (plain, told))
    clean, both = plain.own.features, told.own.features
    released = told.release(both, torch.Generator().manual_seed(1))
    assert torch.equal(released[:, :8], plain.release(clean, torch.Generator().manual_seed(1)))
    assert torch.equal(released[:, 8:], both[:, 8:])
    known = F.one_hot(told.own.labels, 3).repeat_interleave(16, 1)
    mean, variance = told.moments()
    inner_mean, inner_variance = channel.moments(clean.flatten(1), 2)
    assert torch.equal(mean, torch.cat([inner_mean, known], 1))
    assert torch.equal(variance, torch.cat([inner_variance, torch.zeros(48)]))


def test_the_linear_reconstruction_is_a_regression_within_the_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One intercept per class and common slopes, by covariances about the means of classes."""
    monkeypatch.setattr("cemlib.numerics.ridge.RIDGES", (1e-9,))
    _, task, _ = tasks(tmp_path, Mixer(), std=0.3)
    own, estimate = task.own, linear_estimate(task)
    z = own.features[:, :8].flatten(1).double().numpy()
    x = own.images.flatten(1).double().numpy() / 255
    labels = own.labels.numpy()
    means = [[part[labels == label].mean(0) for label in range(3)] for part in (z, x)]
    z_within, x_within = z - np.stack(means[0])[labels], x - np.stack(means[1])[labels]
    covariance = z_within.T @ z_within / len(z) + 0.3**2 * np.eye(z.shape[1])
    slopes = np.linalg.solve(covariance, z_within.T @ x_within / len(z))
    release = task.released[:, :8].flatten(1).double().numpy()
    classes = torch.arange(90).numpy() % 3
    expected = np.stack(means[1])[classes] + (release - np.stack(means[0])[classes]) @ slopes
    centred = (task.released.flatten(1) - estimate.mean).double()
    found = estimate.intercept + centred @ estimate.weights.double()
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-4)


def test_a_release_without_information_leaves_the_mean_image_of_the_class(tmp_path: Path) -> None:
    without, task, truth = tasks(tmp_path, Constant(), std=0.1)
    x, labels = task.own.targets(), torch.arange(90) % 3
    of_classes = torch.stack([x[task.own.labels == label].mean(0) for label in range(3)])
    best, mean_image = of_classes[labels], x.mean(0).expand_as(truth)
    found = decoder(task)
    told = F.mse_loss(found.reconstructions, truth).item()
    untold = F.mse_loss(decoder(without).reconstructions, truth).item()
    assert told == pytest.approx(F.mse_loss(best, truth).item(), rel=0.03)
    assert untold == pytest.approx(F.mse_loss(mean_image, truth).item(), rel=0.03)
    assert told < 0.2 * untold
    assert len(found.state["network.layers.0.body.0.weight"]) == 8  # the maps of the client alone


def test_without_linear_estimates_the_network_gets_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("attacks.wiener", "models.decoder"):
        monkeypatch.setattr(f"cemlib.{module}.LARGEST", 0)
    without, task, truth = tasks(tmp_path, Constant(), std=0.1)
    found = decoder(task)
    assert len(found.state["network.layers.0.body.0.weight"]) == 8 + 3
    told = F.mse_loss(found.reconstructions, truth).item()
    assert told < 0.8 * F.mse_loss(decoder(without).reconstructions, truth).item()
