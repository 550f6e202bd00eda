"""Victims whose best linear reconstruction is known."""

from pathlib import Path
from typing import Any

import torch
from easy_tasks import pairs, task_on
from torch import Tensor, nn

from cemlib.attacks.task import Task
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models.split import SplitModel


class Mixer(nn.Module):
    """Features (N, 8, 4, 4): an invertible linear map of all 128 pixels of 8x16 images."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = torch.linalg.qr(
            torch.randn(128, 128, generator=torch.Generator().manual_seed(0))
        )[0]

    def forward(self, images: Tensor) -> Tensor:
        return (images.flatten(1) @ self.mix + 0.3).view(-1, 8, 4, 4)


class Constant(nn.Module):
    """Features (N, 8, 4, 4) that say nothing about the image."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.full((len(images), 8, 4, 4), 0.3)


def random_images(count: int, seed: int) -> Tensor:
    return torch.randint(256, (count, 1, 8, 16), generator=torch.Generator().manual_seed(seed)).to(
        torch.uint8
    )


def make_task(
    place: Path, encoder: nn.Module, std: float = 0.0, **options: Any
) -> tuple[Task, Tensor]:
    """A task and, apart from it, the images that are to be found."""
    victim = Deployed(SplitModel(encoder, nn.Identity(), (8, 4, 4)), GaussianNoise(std))
    parts = [pairs(victim, random_images(*part)) for part in ((600, 0), (20, 1), (50, 2))]
    return task_on(place, victim, parts, options, victim.model)
