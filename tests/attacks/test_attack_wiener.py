"""The linear estimates that the decoder starts from: numpy, scikit-learn, and known answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from easy_tasks import Constant, Mixer, judge, make_task, pairs, task_on
from sklearn.linear_model import LinearRegression
from torch import Tensor, nn

from cemlib.attacks.task import Task
from cemlib.attacks.wiener import linear_estimate
from cemlib.defences.channels import Channel, build
from cemlib.defences.deployed import Deployed
from cemlib.models.decoder import LinearEstimate
from cemlib.models.split import SplitModel
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.ridge import RIDGES
from cemlib.numerics.seeds import generator

CHANNELS: dict[str, Channel] = {
    "clean": build("noise", noise_std=0.0),
    "noise": build("noise", noise_std=0.3),
    "dropout": build("dropout", noise_std=0.1, rate=0.4),
}


class Curved(nn.Module):
    """Features (N, 2, 2, 2) of 4x4 images: a mixture, and something of its square."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))

    def forward(self, images: Tensor) -> Tensor:
        mixed = images.flatten(1) @ self.mix
        return (mixed + 0.2 * mixed.square()).view(-1, 2, 2, 2)


def walks(count: int, seed: int) -> Tensor:
    """Images (count, 1, 4, 4) whose neighbouring pixels are alike."""
    draws = torch.Generator().manual_seed(seed)
    steps = 0.25 * torch.randn(count, 1, 4, 4, generator=draws)
    return (0.5 + steps.cumsum(3)).clamp(0, 1).mul(255).round().to(torch.uint8)


def curved_task(
    place: Path, channel: str, queries: int = 1, own: int = 5000, held_out: int = 300
) -> Task:
    """By default with more images of its own than are taken at once."""
    victim = Deployed(SplitModel(Curved(), nn.Identity(), (2, 2, 2)), CHANNELS[channel])
    parts = [pairs(victim, walks(*part)) for part in ((own, 1), (held_out, 2), (40, 3))]
    return task_on(place, victim, parts, {"queries": queries}, judge())[0]


def moments(task: Task, channel: str) -> tuple[Any, ...]:
    """Means, covariances and the noise's variances, by numpy in float64."""
    z = task.own.features.flatten(1).double().numpy()
    x = task.own.images.flatten(1).double().numpy() / 255
    variance = np.full(z.shape[1], task.victim.channel.noise_std**2)
    if channel == "dropout":
        variance += 0.4 * 0.6 * np.square(z).mean(0)
        z = 0.6 * z
    together = np.cov(z.T, x.T, bias=True)
    dim = z.shape[1]
    covariances = together[:dim, :dim], together[:dim, dim:]
    return z.mean(0), x.mean(0), *covariances, variance / task.queries


def solved(task: Task, channel: str) -> dict[str, Any]:
    """The estimate by its formula, with the ridge that the held-out images choose."""
    m, b, s, c, v = moments(task, channel)
    noise = generator(0, "attack_ridge_noise", 0)
    held_out = task.held_out
    seen = task.victim.channel(held_out.features, noise, queries=task.queries).flatten(1)
    truth = held_out.images.flatten(1).numpy() / 255
    best: dict[str, Any] = {"error": np.inf}
    for power in range(-8, 2):
        r = 10.0**power * np.trace(s + np.diag(v)) / len(m) * np.eye(len(m))
        weights = np.linalg.solve(s + np.diag(v) + r, c)
        answers = (b + (seen.double().numpy() - m) @ weights).clip(0, 1)
        error = np.square(answers - truth).mean()
        if error < best["error"]:
            wiener = (s + r) @ np.linalg.inv(s + np.diag(v) + r)
            best = {"error": error, "power": power, "weights": weights, "filter": wiener}
    return best | {"mean": m, "intercept": b}


def check(found: LinearEstimate, expected: dict[str, Any]) -> None:
    for name, tensor in vars(found).items():
        assert tensor.dtype == torch.float32
        np.testing.assert_allclose(tensor.numpy(), expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("channel", CHANNELS)
def test_the_estimates_are_those_of_the_formulae(
    tmp_path: Path, channel: str, queries: int
) -> None:
    task = curved_task(tmp_path, channel, queries)
    check(linear_estimate(task), solved(task, channel))


def test_what_takes_the_place_of_releases_is_regressed(tmp_path: Path) -> None:
    """By scikit-learn, on one release per image: no variance is left out or counted twice."""
    task = curved_task(tmp_path, "noise")
    found = linear_estimate(task, lambda z: 2 * z - 1)
    noise = generator(0, "attack_uncoding_noise")
    z = 2 * task.victim.channel(task.own.features, noise).flatten(1).double().numpy() - 1
    x = task.own.images.flatten(1).double().numpy() / 255
    expected = LinearRegression().fit(z, x).coef_.T
    np.testing.assert_allclose(found.mean.numpy(), z.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.weights.numpy(), expected, rtol=0.02, atol=1e-3)
    assert torch.equal(found.filter, torch.eye(8))


def test_few_images_ask_for_a_ridge(tmp_path: Path) -> None:
    task = curved_task(tmp_path, "clean", own=9)
    expected = solved(task, "clean")
    assert 10.0 ** expected["power"] > 100 * min(RIDGES)
    check(linear_estimate(task), expected)


@pytest.mark.parametrize("channel", ["noise", "dropout"])
def test_the_weights_are_least_squares_on_many_releases(tmp_path: Path, channel: str) -> None:
    """Of the pixels, and, for the filter, of the clean features."""
    task = curved_task(tmp_path, channel, own=2000, held_out=3000)
    found, own = linear_estimate(task), task.own
    releases = [
        task.victim.channel(own.features, generator(1, "many", n)).flatten(1) for n in range(200)
    ]
    z = torch.cat(releases).numpy()
    clean = (0.6 if channel == "dropout" else 1.0) * own.features.flatten(1).numpy()
    for weights, truth in ((found.weights, own.targets().flatten(1)), (found.filter.T, clean)):
        fitted = LinearRegression().fit(z, np.tile(truth, (200, 1)))
        scale = np.abs(fitted.coef_).max()
        np.testing.assert_allclose(weights.numpy(), fitted.coef_.T, atol=0.08 * scale)


def answers(task: Task) -> Tensor:
    found = linear_estimate(task)
    flat = found.intercept + (task.released.flatten(1) - found.mean) @ found.weights
    return flat.clamp(0, 1).view(-1, *task.image_shape).double()


@pytest.mark.parametrize("std", [0.0, 0.1])
def test_a_constant_encoder_leaves_the_mean_image(tmp_path: Path, std: float) -> None:
    task, _ = make_task(tmp_path, Constant(), std)
    found = linear_estimate(task)
    assert all(tensor.isfinite().all() for tensor in vars(found).values())
    mean = task.own.images.double().mean(0) / 255
    torch.testing.assert_close(answers(task), mean.expand(50, -1, -1, -1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_features_that_are_no_numbers_are_named(tmp_path: Path, value: float) -> None:
    task, _ = make_task(tmp_path, Mixer())
    features = task.own.features.clone()
    features[3, 2] = value
    task = replace(task, own=replace(task.own, features=features))
    with pytest.raises(DivergedError, match="features of the attacker's images are not finite"):
        linear_estimate(task)
