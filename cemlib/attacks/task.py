"""The input and the output of an attack."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.data.prepared import image_shape, to_float
from cemlib.defences.deployed import Deployed
from cemlib.models.split import SplitModel
from cemlib.records.checkpoint import Checkpoint


@dataclass(frozen=True)
class Pairs:
    """Images (N, C, H, W), uint8, clean features (N, c, h, w), float32, and labels (N,), long."""

    images: Tensor
    features: Tensor
    labels: Tensor

    def targets(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Return the images in [0, 1]."""
        return to_float(self.images[rows])

    def part(self, rows: slice) -> "Pairs":
        """Return the pairs of some rows."""
        return Pairs(self.images[rows], self.features[rows], self.labels[rows])

    def followed_by(self, other: "Pairs") -> "Pairs":
        """Return these pairs followed by others."""
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return Pairs(*map(torch.cat, both))


@dataclass(frozen=True)
class Task:
    """One attack with one kind of knowledge on one deployed classifier.

    Attributes:
        victim: The classifier, which the attacker knows completely (white box).
        own: The pairs that the attacker trains on, with mirror images if `options["flip"]` and the
            study's `train.augment.flip` are set.
        held_out: Pairs that the attacker holds out, for learning curves and choices.
        released: Released features (N, c, h, w) of the images to reconstruct, averaged over the
            attacker's queries; no attack has access to these images.
        options: The attack's section of the configuration, as plain values.
        seed: Seed of the attack's random streams.
        title: Title of the lines of progress.
        judge: An undefended classifier trained on the same data, in eval mode.
        start: The trained decoder of the attack `options["start"]`, in eval mode and frozen.
        class_maps: Number of trailing feature maps that encode the class; 0 if it is not known.
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
    class_maps: int = 0

    @property
    def queries(self) -> int:
        """Return the number of releases of the same image that the attacker averages."""
        return int(self.options.get("queries", 1))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Return (C, H, W) of the images."""
        return image_shape(self.own.images)

    def release(self, features: Tensor, noise: torch.Generator) -> Tensor:
        """Return the mean of `queries` new releases of clean features; class maps do not change."""
        clean, known = self._parts(features)
        released = self.victim.channel(clean, noise, queries=self.queries)
        return torch.cat([released, known], 1) if self.class_maps else released

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return the `moments` of releases of the attacker's images; class maps vary by 0."""
        if not self.class_maps:
            return self.victim.channel.moments(self.own.features.flatten(1), self.queries)
        clean, known = (part.flatten(1) for part in self._parts(self.own.features))
        mean, variance = self.victim.channel.moments(clean, self.queries)
        return torch.cat([mean, known], 1), F.pad(variance, (0, known.shape[1]))

    def _parts(self, features: Tensor) -> tuple[Tensor, ...]:
        return features.tensor_split([features.shape[1] - self.class_maps], 1)


@dataclass(frozen=True)
class Outcome:
    """Reconstructions (N, C, H, W) in [0, 1], the attacker's tensors, and the history.

    The history has a row with `val_mse` for every epoch, and is empty without a training.
    """

    reconstructions: Tensor
    state: Mapping[str, Tensor]
    history: list[dict[str, Any]] = field(default_factory=list)
