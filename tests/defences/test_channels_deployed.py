"""What passes the channel is what the server scores; by the normal distribution."""

import math
from typing import Any

import pytest
import torch
from scipy import stats
from torch import nn

from cemlib.defences.channels import CHANNELS, build
from cemlib.defences.deployed import Deployed
from cemlib.models.layers import SparseCoding
from cemlib.models.split import SplitModel
from cemlib.numerics.seeds import generator


class FirstPixels(nn.Module):
    """Features (N, 8, 2, 2): the first 32 pixels."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :32].view(-1, 8, 2, 2)


class Threshold(nn.Module):
    """Two logits by the sign of (mean feature - border)."""

    def __init__(self, border: float) -> None:
        super().__init__()
        self.border = border

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        score = features.flatten(1).mean(1) - self.border
        return torch.stack([-score, score], dim=1)


def victim(std: float, name: str = "noise", border: float = 0.5, **options: Any) -> Deployed:
    channel = build(name, noise_std=std, **options)
    return Deployed(SplitModel(FirstPixels(), Threshold(border), (8, 2, 2)), channel)


def images_of_two_kinds() -> tuple[torch.Tensor, torch.Tensor]:
    """Uint8 images that the victim tells apart without error: dark ones and bright ones."""
    labels = torch.arange(2000) % 2
    return (80 + 90 * labels)[:, None, None, None].expand(-1, 1, 8, 8).to(torch.uint8), labels


def top1_of(deployed: Deployed) -> float:
    return deployed.score(*images_of_two_kinds(), generator(0, "noise"))["top1"]


def close(expected: float) -> Any:
    return pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / 2000))


def test_scores_by_the_normal_distribution() -> None:
    """Features stand 0.186 and 0.167 off the threshold; their mean's noise has std / sqrt(32)."""
    assert top1_of(victim(0.0)) == 1
    distance = [0.5 - 80 / 255, 170 / 255 - 0.5]
    for std in (0.5, 1.0, 2.0, 1e4):  # the last leaves chance
        assert top1_of(victim(std)) == close(
            sum(stats.norm.cdf(d * math.sqrt(32) / std) for d in distance) / 2
        )


def test_the_server_sees_features_dropped() -> None:
    """Of 32 equal features the sum is binomial; dark images stay below, bright ones fall too."""
    held = [stats.binom(32, 0.4).cdf(border) for border in (32 * 0.24 * 255 / 80, 32 * 0.24 * 1.5)]
    expected = (held[0] + 1 - held[1]) / 2
    assert 0.6 < expected < 0.95
    assert top1_of(victim(0.0, "dropout", border=0.24, rate=0.6)) == close(expected)


def test_a_coding_is_undone_if_its_output_gets_nothing_but_noise() -> None:
    client = nn.Sequential(FirstPixels(), SparseCoding(32), nn.Sigmoid())
    model = SplitModel(client, Threshold(0.5), (8, 2, 2))
    channels = {name: build(name, noise_std=0.1) for name in CHANNELS}
    found = {name for name, each in channels.items() if Deployed(model, each).coding is not None}
    assert found == {"noise"}
    assert victim(0.1).coding is None  # there is no coding
