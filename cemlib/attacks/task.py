"""What an attacker has in hand, and what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from cemlib.data.pixels import image_shape, to_float
from cemlib.defences.deployed import Deployed
from cemlib.models.split import SplitModel
from cemlib.records.checkpoint import Checkpoint


@dataclass(frozen=True)
class Pairs:
    """Images with their clean features; the attacker owns the encoder, so it can release again.

    Attributes:
        images: uint8 (N, C, H, W).
        features: float32 (N, c, h, w), computed once: the encoder is frozen.
        labels: long (N,).
    """

    images: Tensor
    features: Tensor
    labels: Tensor

    def targets(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Return the images in [0, 1]."""
        return to_float(self.images[rows])

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Return (C, H, W) of the images."""
        return image_shape(self.images)

    def part(self, rows: slice) -> "Pairs":
        """Return some of the pairs."""
        return Pairs(self.images[rows], self.features[rows], self.labels[rows])

    def beside(self, other: "Pairs") -> "Pairs":
        """Return these pairs, and after them others."""
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return Pairs(*map(torch.cat, both))


@dataclass(frozen=True)
class Task:
    """One attack with one knowledge on one deployed classifier.

    Attributes:
        victim: The classifier, known inside out (white box).
        own: What the attacker trains on, with the mirror images where `options["flip"]` adds them.
        held_out: Images held out of the attacker's own set, for learning curves and choices.
        released: Released features (N, c, h, w) of the images to reconstruct, averaged over the
            attacker's queries; the images themselves are not here, so no attack can look.
        options: The attack's section of the configuration, as plain values.
        seed: Seed of the attack's random streams.
        title: What the progress bar says.
        checkpoint: Where a learned attack keeps its state to resume from.
        judge: An undefended classifier trained apart on the same data, in eval mode.
        start: The trained decoder that `options["start"]` names, in eval mode and frozen.
    """

    victim: Deployed
    own: Pairs
    held_out: Pairs
    released: Tensor
    options: Mapping[str, Any]
    seed: int
    title: str
    checkpoint: Checkpoint
    judge: SplitModel
    start: nn.Module | None = None

    @property
    def queries(self) -> int:
        """Return how many releases of the same image the attacker sees and averages."""
        return int(self.options.get("queries", 1))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Return (C, H, W) of the images."""
        return self.own.image_shape

    def release(self, features: Tensor, noise: torch.Generator) -> Tensor:
        """Return features as the attacker would see them: the mean of `queries` fresh releases."""
        return self.victim.channel(features, noise, queries=self.queries)


@dataclass(frozen=True)
class Outcome:
    """Reconstructions (N, C, H, W) in [0, 1], the attacker's tensors, and its learning curve."""

    reconstructions: Tensor
    state: Mapping[str, Tensor]
    history: list[dict[str, Any]] = field(default_factory=list)
