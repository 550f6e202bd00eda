"""The release channel: its noise is what it says, always fresh, and nobody gets round it."""

import math

import pytest
import torch
from scipy import stats
from torch import nn

from cemlib.attacks.task import Pairs, Task
from cemlib.checkpoint import Checkpoint
from cemlib.defences.channel import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models.split import SplitModel
from cemlib.seeds import generator


class FirstPixels(nn.Module):
    """Features (N, 8, 2, 2): the first 32 pixels."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :32].view(-1, 8, 2, 2)


class Threshold(nn.Module):
    """Two logits by the sign of (mean feature - 1/2)."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        score = features.flatten(1).mean(1) - 0.5
        return torch.stack([-score, score], dim=1)


def victim(std: float) -> Deployed:
    return Deployed(SplitModel(FirstPixels(), Threshold(), (8, 2, 2)), GaussianNoise(std))


@pytest.mark.parametrize("std", [0.025, 1.0, 30.0])
def test_the_noise_is_gaussian_with_the_given_deviation(std: float) -> None:
    features = torch.rand(200, 8, 4, 4)
    noise = (GaussianNoise(std)(features, generator(0, "noise")) - features).flatten()
    assert noise.std().item() == pytest.approx(std, rel=4 / math.sqrt(2 * len(noise)))
    assert abs(noise.mean().item()) < 5 * std / math.sqrt(len(noise))
    assert stats.kstest(noise.double().numpy() / std, "norm").pvalue > 1e-3


def test_the_noise_is_white() -> None:
    noise = GaussianNoise(1.0)(torch.zeros(4000, 8), generator(0, "noise")).double()
    error = torch.corrcoef(noise.T) - torch.eye(8)
    assert error.abs().max() < 5 / math.sqrt(4000)


def test_every_call_draws_fresh_noise() -> None:
    draws, features = generator(0, "noise"), torch.zeros(64)
    first, second = (GaussianNoise(1.0)(features, draws) for _ in range(2))
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1].item()) < 0.5
    assert not torch.equal(first, second)


def test_the_same_generator_gives_the_same_noise() -> None:
    features = torch.rand(3, 4)
    first, again = (GaussianNoise(0.1)(features, generator(7, "noise", 2)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, GaussianNoise(0.1)(features, generator(7, "noise", 3)))


def test_without_deviation_the_features_themselves_are_released() -> None:
    features = torch.rand(3, 4)
    assert torch.equal(GaussianNoise(0.0)(features, generator(0, "noise")), features)


def test_the_gradient_passes_the_channel_unchanged() -> None:
    features = torch.rand(5, dtype=torch.float64, requires_grad=True)
    weights = torch.arange(5.0, dtype=torch.float64)
    (GaussianNoise(0.3)(features, generator(0, "noise")) * weights).sum().backward()
    assert features.grad is not None
    assert torch.equal(features.grad, weights)


def images_of_two_kinds() -> tuple[torch.Tensor, torch.Tensor]:
    """Uint8 images that the victim tells apart without error: dark ones and bright ones."""
    labels = torch.arange(2000) % 2
    return (80 + 90 * labels)[:, None, None, None].expand(-1, 1, 8, 8).to(torch.uint8), labels


def test_scores_by_the_normal_distribution() -> None:
    """Features stand 0.186 and 0.167 off the threshold; their mean's noise has std / sqrt(32)."""
    images, labels = images_of_two_kinds()
    assert victim(0.0).score(images, labels, generator(0, "noise"))["top1"] == 1
    distance = [0.5 - 80 / 255, 170 / 255 - 0.5]
    for std in (0.5, 1.0, 2.0):
        found = victim(std).score(images, labels, generator(0, "noise"))["top1"]
        expected = sum(stats.norm.cdf(d * math.sqrt(32) / std) for d in distance) / 2
        error = math.sqrt(expected * (1 - expected) / 2000)
        assert found == pytest.approx(expected, abs=4 * error)


def test_huge_noise_leaves_chance() -> None:
    images, labels = images_of_two_kinds()
    top1 = victim(1e4).score(images, labels, generator(0, "noise"))["top1"]
    assert top1 == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(2000))


def test_the_loss_is_the_cross_entropy_of_the_released_features() -> None:
    images, labels = images_of_two_kinds()
    score = (images[:, 0, 0, 0].double() / 255 - 0.5).numpy()
    margin = score * (2 * labels.numpy() - 1)
    expected = float(torch.from_numpy(margin).mul(-2).exp().log1p().mean())
    assert victim(0.0).score(images, labels, generator(0, "noise"))["loss"] == pytest.approx(
        expected, rel=1e-5
    )


def test_features_are_clean() -> None:
    images, _ = images_of_two_kinds()
    expected = images.flatten(1)[:, :32].float() / 255
    assert torch.equal(victim(1e4).features(images).flatten(1), expected)


def test_the_attackers_own_releases_pass_the_victims_channel(tmp_path) -> None:
    images = torch.zeros(2000, 1, 8, 8, dtype=torch.uint8)
    pairs = Pairs(images, victim(2.0).features(images))
    task = Task(victim(2.0), pairs, pairs, pairs.features, {}, 0, "", Checkpoint(tmp_path))
    assert task.release(pairs.features, generator(0, "a")).std().item() == pytest.approx(
        2, rel=0.02
    )
