"""A surrogate of the user's own in a training in memory."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from cemlib.config.defences import DefenceConfig
from cemlib.defences.channels.base import Channel
from cemlib.surrogates.base import Surrogate
from cemlib.surrogates.own import Own


@dataclass(frozen=True)
class OwnSurrogate:
    """A surrogate that no configuration names.

    Attributes:
        build: Called with `dim`, `num_classes` and `noise_std` by name; returns a module of clean
            features (B, D) and labels (B,) to a scalar, such as a subclass of `Surrogate`.
        weight: lambda, before scaling by the learning rate.
    """

    build: Callable[..., nn.Module]
    weight: float = 16.0

    def surrogate(
        self,
        defence: DefenceConfig,  # noqa: ARG002 - called as the one that is configured
        channel: Channel,
        dim: int,
        num_classes: int,
    ) -> Surrogate:
        """The surrogate for features of `dim` dimensions behind a channel."""
        module = self.build(dim=dim, num_classes=num_classes, noise_std=channel.std)
        if isinstance(module, Surrogate):
            return module
        return Own(module, dim=dim, num_classes=num_classes, noise_std=channel.std)
