"""What an attacker has in hand, and what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cemlib.checkpoint import Checkpoint
from cemlib.data.batches import to_float
from cemlib.defences.deployed import Deployed


@dataclass(frozen=True)
class Pairs:
    """Images with their clean features; the attacker owns the encoder, so it can release again.

    Attributes:
        images: uint8 (N, C, H, W).
        features: float32 (N, c, h, w), computed once: the encoder is frozen.
    """

    images: Tensor
    features: Tensor

    def targets(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Images in [0, 1]."""
        return to_float(self.images[rows])


@dataclass(frozen=True)
class Task:
    """One attack with one knowledge on one deployed classifier.

    Attributes:
        victim: The classifier, known inside out (white box).
        own: What the attacker trains on.
        held_out: Images nobody trains on, for the learning curve.
        released: Released features (N, c, h, w) of the images to reconstruct; the images
            themselves are not here, so no attack can look.
        options: The attack's section of the configuration, as plain values.
        seed: Seed of the attack's random streams.
        title: What the progress bar says.
        checkpoint: Where a learned attack keeps its state to resume from.
    """

    victim: Deployed
    own: Pairs
    held_out: Pairs
    released: Tensor
    options: Mapping[str, Any]
    seed: int
    title: str
    checkpoint: Checkpoint

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of the images."""
        channels, height, width = self.own.images.shape[1:]
        return channels, height, width

    def release(self, features: Tensor, noise: torch.Generator) -> Tensor:
        """Features as the victim would release them, with fresh noise."""
        return self.victim.channel(features, noise)


@dataclass(frozen=True)
class Outcome:
    """Reconstructions (N, C, H, W) in [0, 1], the attacker's tensors, and its learning curve."""

    reconstructions: Tensor
    state: Mapping[str, Tensor]
    history: list[dict[str, Any]] = field(default_factory=list)
