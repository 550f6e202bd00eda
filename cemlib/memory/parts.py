"""What all rehearsals have in common: images, networks and passes without data."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from cemlib.config import Study
from cemlib.data.pixels import unit
from cemlib.data.prepared import Split
from cemlib.defences.channels import build as build_channel
from cemlib.defences.deployed import CHUNK, Deployed
from cemlib.memory.facts import Facts
from cemlib.memory.recorder import META, empty
from cemlib.models import build

FORM = torch.channels_last
Item = TypeVar("Item")


@dataclass(frozen=True)
class Stage:
    """A study's images, and one of its defences (or the judge)."""

    study: Study
    facts: Facts
    defence: str

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.facts.classes

    def splits(self) -> dict[str, Split]:
        """Images and labels of every split."""
        counts, shape = self.facts.counts, self.facts.image_shape
        return {
            name: Split(empty(count, *shape, dtype=torch.uint8), empty(count, dtype=torch.long))
            for name, count in counts.items()
        }

    def deployed(self) -> Deployed:
        """The split network of the defence and its channel."""
        settings, (channels, _, side) = self.study.defence(self.defence), self.facts.image_shape
        with META:
            model = build(
                self.study.model.name,
                num_classes=self.classes,
                image_size=side,
                cut=self.study.model.cut,
                sparse_coding=settings.sparse_coding,
                mean=(0.5,) * channels,
                std=(0.5,) * channels,
            ).to(memory_format=FORM)
        options = settings.channel.options()
        channel = build_channel(settings.channel.name, noise_std=settings.noise_std, **options)
        return Deployed(model, channel)

    def images(self, count: int) -> Tensor:
        """A batch of images in [0, 1]."""
        return empty(count, *self.facts.image_shape).contiguous(memory_format=FORM)


def noise() -> torch.Generator:
    """Where channels draw: there is no generator on the meta device."""
    return torch.Generator()


def repeated(work: Callable[[Item], Tensor], items: Sequence[Item]) -> list[Tensor]:
    """What `work` makes of items of one size: it is done with the first and the last alone.

    Those between need what the first needed, and an epoch has hundreds of them.
    """
    first = work(items[0])
    between = [torch.empty_like(first) for _ in items[1:-1]]
    return [first, *between, *(work(item) for item in items[1:][-1:])]


def features(deployed: Deployed, images: Tensor) -> Tensor:
    """As `Deployed.features`."""
    encoder = deployed.model.eval().encoder
    with torch.no_grad():
        parts = torch.split(images, CHUNK)
        return torch.cat(repeated(lambda part: encoder(unit(part)).float(), parts))


def logits(deployed: Deployed, clean: Tensor) -> Tensor:
    """As `Deployed.logits`."""
    head = deployed.model.eval().head
    with torch.no_grad():
        parts = torch.split(deployed.channel(clean, noise()), CHUNK)
        return torch.cat(repeated(lambda part: head(part).float(), parts))


def momenta(*modules: nn.Module | None, slots: int) -> list[Tensor]:
    """What an optimiser keeps for the weights of some modules."""
    weights = [each for module in modules if module for each in module.parameters()]
    return [torch.empty_like(each) for each in weights for _ in range(slots)]


def forget_gradients(*modules: nn.Module | None) -> None:
    """Free the gradients of some modules' weights."""
    for module in modules:
        if module is not None:
            module.zero_grad(set_to_none=True)


def leakage(clean: Tensor, classes: int) -> None:
    """What `cemlib.metrics.leakage_bound` makes of features (N, c, h, w)."""
    doubles = clean.flatten(1).double() / 1.0
    members = doubles[: math.ceil(len(doubles) / classes)].clone()
    centred = (members - members.mean(0)) / 1.0
    shorter = centred.T if len(centred) < centred.shape[1] else centred
    torch.linalg.cholesky(shorter.T @ shorter)


def written(module: nn.Module) -> None:
    """What `cemlib.files.save_tensors` makes of a module: plain copies, and the file's bytes."""
    plain = [tensor.contiguous() for tensor in module.state_dict().values()]
    size = sum(tensor.numel() * tensor.element_size() for tensor in plain)
    empty(size, dtype=torch.uint8)
