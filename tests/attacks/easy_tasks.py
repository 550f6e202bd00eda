"""Tasks for attacks: on a victim that is easily inverted, and on two whose best inverse is known.

The features of the first are the image at a quarter of its side.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from killed_job import Dying
from result_files import timeless
from tiny_study import blobs
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.budget import load_decoder
from cemlib.attacks.decoder import decoder
from cemlib.attacks.task import Outcome, Pairs, Task
from cemlib.config.attacks import Decoder as DecoderConfig
from cemlib.config.base import Section
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models import Decoder, build
from cemlib.models.split import SplitModel
from cemlib.numerics.seeds import derive
from cemlib.records.checkpoint import Checkpoint

OPTIONS = {"epochs": 20, "lr": 0.01, "batch_size": 32, "blocks": 1, "width": 16}


class Small(nn.Module):
    """Features (N, channels, 4, 4) of images (N, channels, 16, 16)."""

    def forward(self, images: Tensor) -> Tensor:
        return F.avg_pool2d(images, 4)


def judge(channels: int = 1, side: int = 16, cut: int = 2) -> SplitModel:
    """A classifier with the weights it begins with: its features are as good as any."""
    torch.manual_seed(7)
    grey = (0.5,) * channels
    return build("small", num_classes=3, image_size=side, cut=cut, mean=grey, std=grey).eval()


def pairs(victim: Deployed, images: Tensor, labels: Tensor | None = None) -> Pairs:
    """Images with the victim's features, all of the first class unless labels are given."""
    if labels is None:
        labels = torch.zeros(len(images), dtype=torch.long)
    return Pairs(images, victim.features(images), labels)


def task_on(
    place: Path,
    victim: Deployed,
    parts: Sequence[Pairs],
    options: Mapping[str, Any],
    judge: SplitModel,
    start: nn.Module | None = None,
) -> tuple[Task, Tensor]:
    """A task on pairs to own, to hold out and to find; apart from it, the images to find."""
    own, held_out, targets = parts
    draws, queries = torch.Generator().manual_seed(0), options.get("queries", 1)
    task = Task(
        victim=victim,
        own=own,
        held_out=held_out,
        released=victim.channel(targets.features, draws, queries=queries),
        options=options,
        seed=0,
        title="attack",
        checkpoint=Checkpoint(place),
        judge=judge,
        start=start,
    )
    return task, targets.targets()


def smooth(count: int, seed: int, channels: int = 1) -> Tensor:
    """Smooth images, uint8 (count, channels, 16, 16)."""
    draws = torch.Generator().manual_seed(seed)
    coarse = 0.15 + 0.7 * torch.rand(count, channels, 4, 4, generator=draws)
    fine = F.interpolate(coarse, size=(16, 16), mode="bilinear")
    return fine.mul(255).round().to(torch.uint8)


def easy_task(
    place: Path,
    config: type[Section] = DecoderConfig,
    *,
    std: float = 0.0,
    train: int = 96,
    start: nn.Module | None = None,
    device: str = "cpu",
    **options: Any,
) -> tuple[Task, Tensor]:
    """A task and, apart from it, the images that are to be found."""
    victim = Deployed(SplitModel(Small(), nn.Identity(), (1, 4, 4)), GaussianNoise(std))
    splits = [each.to(device) for each in (blobs(train, 1), blobs(40, 2), blobs(60, 3))]
    parts = [pairs(victim, split.images, split.labels) for split in splits]
    settings = config(**options).model_dump()
    return task_on(place, victim, parts, settings, judge().to(device), start)


def network_task(
    place: Path, config: type[Section], side: int, channels: int, **options: Any
) -> Task:
    """Three random images of any side behind the client of a network: features (8, h, h)."""
    victim = Deployed(judge(channels, side, cut=4), GaussianNoise(0.1))
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(256, (3, channels, side, side), generator=draws).to(torch.uint8)
    parts, settings = [pairs(victim, images)] * 3, config(**options).model_dump()
    decoder = Decoder(8, (channels, side, side), blocks=1, width=4).eval().requires_grad_(False)
    return task_on(place, victim, parts, settings, judge(channels, side), decoder)[0]


def first_decoder() -> Decoder:
    """The decoder with which the published attack on an `easy_task` begins, with `OPTIONS`."""
    torch.manual_seed(derive(0, "attacker"))
    return Decoder(1, (1, 16, 16), blocks=1, width=16, doublings=2)


def trained_decoder(place: Path, **options: Any) -> nn.Module:
    """Return what the attack `decoder` trains on an `easy_task`, from which `gan` can start."""
    task, _ = easy_task(place, std=0.05, **(OPTIONS | options))
    return load_decoder(decoder(task).state, task.options, (1, 4, 4), (1, 16, 16))


def share_off(found: Mapping[str, Tensor], expected: Iterable[tuple[str, Tensor]]) -> float:
    """Share of weights that differ by more than 1e-4.

    Adam moves a weight whose gradient is nearly zero by rounding alone, in either direction.
    """
    off = torch.cat([(found[name] - weights).abs().flatten() > 1e-4 for name, weights in expected])
    return off.double().mean().item()


def same(one: Outcome, other: Outcome) -> bool:
    """Whether two attacks ended with the same bits."""
    return (
        torch.equal(one.reconstructions, other.reconstructions)
        and timeless(one.history) == timeless(other.history)
        and one.state.keys() == other.state.keys()
        and all(torch.equal(one.state[name], other.state[name]) for name in one.state)
    )


def killed(attack: Callable[[Task], Outcome], task: Task, place: Path, writes: int = 2) -> Task:
    """Let an attack die after some writes of its checkpoint; return the task that goes on."""
    with pytest.raises(KeyboardInterrupt):
        attack(replace(task, checkpoint=Dying(place, writes_left=writes)))
    return replace(task, checkpoint=Checkpoint(place))


class Mixer(nn.Module):
    """Features (N, 8, 4, 4): an invertible linear map of all 128 pixels of 8x16 images."""

    def __init__(self) -> None:
        super().__init__()
        draws = torch.Generator().manual_seed(0)
        self.mix = torch.linalg.qr(torch.randn(128, 128, generator=draws))[0]

    def forward(self, images: Tensor) -> Tensor:
        return (images.flatten(1) @ self.mix + 0.3).view(-1, 8, 4, 4)


class Constant(nn.Module):
    """Features (N, 8, 4, 4) that say nothing about the image."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.full((len(images), 8, 4, 4), 0.3)


def random_images(count: int, seed: int) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, 1, 8, 16), generator=draws).to(torch.uint8)


def make_task(
    place: Path, encoder: nn.Module, std: float = 0.0, **options: Any
) -> tuple[Task, Tensor]:
    """A task and, apart from it, the images that are to be found."""
    victim = Deployed(SplitModel(encoder, nn.Identity(), (8, 4, 4)), GaussianNoise(std))
    parts = [pairs(victim, random_images(*part)) for part in ((600, 0), (20, 1), (50, 2))]
    return task_on(place, victim, parts, options, victim.model)
