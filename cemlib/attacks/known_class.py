"""The class of each image, which the attacker knows besides its release.

The class is appended to features and releases as one map per class, 1 for the class of the image
and 0 for the others, that passes the channel unchanged. The linear reconstruction of the default
attack becomes a regression with one intercept per class and common slopes. Its network sees the
class through the linear estimates, or directly where there are none.

The server only guesses the class, and what it can guess is in the release, so this attacker knows
more than the server can.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.attacks.task import Pairs, Task
from cemlib.defences.channels.base import Channel


@dataclass(frozen=True, kw_only=True)
class KnownClass(Channel):
    """A channel that releases the first maps as another channel does, and the others unchanged."""

    channel: Channel  # the other channel
    maps: int  # number of maps that go through it
    classes: int  # number of maps after these

    @property
    def masks(self) -> bool:
        """Return whether random features are missing from a release of the other channel."""
        return self.channel.masks

    @property
    def plain(self) -> bool:
        """Return whether the other channel only adds Gaussian noise."""
        return self.channel.plain

    def __call__(self, features: Tensor, generator: torch.Generator, queries: int = 1) -> Tensor:
        """Return the mean of some releases of features (N, c + classes, h, w)."""
        clean, known = self._parts(features)
        return torch.cat([self.channel(clean, generator, queries), known], 1)

    def moments(self, features: Tensor, queries: int = 1) -> tuple[Tensor, Tensor]:
        """Return the expected mean of some releases, and the variance about it, 0 for the class."""
        clean, known = self._parts(features)
        mean, variance = self.channel.moments(clean, queries)
        zeros = variance.new_zeros(known.shape[1])
        return torch.cat([mean, known], 1), torch.cat([variance, zeros])

    def _parts(self, features: Tensor) -> tuple[Tensor, Tensor]:
        cut = features.shape[1] * self.maps // (self.maps + self.classes)
        return features[:, :cut], features[:, cut:]


def with_class(task: Task, labels: Tensor, classes: int) -> Task:
    """Return the task of an attacker that also knows the class of every image.

    Args:
        task: The task of an attacker that does not.
        labels: The classes (N,) of the images that are to be reconstructed.
        classes: Number of classes.
    """
    inner, maps = task.victim.channel, task.released.shape[1]
    channel = KnownClass(inner.noise_std, channel=inner, maps=maps, classes=classes)
    return replace(
        task,
        victim=replace(task.victim, channel=channel),
        own=_told(task.own, classes),
        held_out=_told(task.held_out, classes),
        released=_append(task.released, labels, classes),
        class_maps=classes,
    )


def _told(pairs: Pairs, classes: int) -> Pairs:
    return replace(pairs, features=_append(pairs.features, pairs.labels, classes))


def _append(features: Tensor, labels: Tensor, classes: int) -> Tensor:
    maps = F.one_hot(labels, classes).to(features)[:, :, None, None]
    return torch.cat([features, maps.expand(-1, -1, *features.shape[2:])], 1)
