"""A victim that a linear reconstruction inverts badly, and a judge that tells its images apart."""

from pathlib import Path
from typing import Any

import torch
from easy_tasks import OPTIONS, pairs, smooth, task_on
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.task import Task
from cemlib.config.attacks import Decoder
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models.split import SplitModel

STD = 0.02


class Phase(nn.Module):
    """Features (N, 2, 4, 4) of grey 16x16 images: pooled pixels as angles on a circle."""

    def forward(self, images: Tensor) -> Tensor:
        angles = 6 * F.avg_pool2d(images, 4)
        return torch.cat([angles.sin(), angles.cos()], 1)


class BrightestCorner(nn.Module):
    """Logits (N, 4): how bright each quarter of the image is."""

    def forward(self, images: Tensor) -> Tensor:
        return F.avg_pool2d(images, 8).flatten(1)


def curved_task(
    place: Path, own: int = 200, std: float = STD, **options: Any
) -> tuple[Task, Tensor]:
    """A task and, apart from it, the images that are to be found; labels are brightest quarters."""
    victim = Deployed(SplitModel(Phase(), nn.Identity(), (2, 4, 4)), GaussianNoise(std))
    quarters = SplitModel(nn.Identity(), BrightestCorner(), (1, 16, 16))
    images = [smooth(count, seed) for count, seed in ((own, 1), (50, 2), (60, 3))]
    labels = [quarters(part.float() / 255).argmax(1) for part in images]
    parts = [pairs(victim, *both) for both in zip(images, labels, strict=True)]
    settings = Decoder(**(OPTIONS | options)).model_dump()
    return task_on(place, victim, parts, settings, quarters)
