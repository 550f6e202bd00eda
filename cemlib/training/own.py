"""A surrogate of the user's own for a training in memory, without a place in the configuration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor, nn

from cemlib.surrogates.base import Sizes, Surrogate


@dataclass(frozen=True)
class OwnSurrogate:
    """A surrogate that no configuration names.

    Attributes:
        build: Called with `dim`, `num_classes` and `noise_std` by name; returns a `Surrogate`, or
            another module that maps clean features (B, D) in float32 and labels (B,) to a scalar
            that is differentiable in the features.
        weight: lambda, before scaling by the learning rate.
    """

    build: Callable[..., nn.Module]
    weight: float = 16.0

    def surrogate(self, **sizes: Unpack[Sizes]) -> Surrogate:
        """Return the surrogate for features of these sizes."""
        module = self.build(**sizes)
        return module if isinstance(module, Surrogate) else Own(module, **sizes)


class Own(Surrogate):
    """Any module `(z, y) -> penalty` with the interface of a surrogate, active in every batch."""

    replayable = False  # a CUDA graph would leave out what the module does in Python

    def __init__(self, module: nn.Module, **sizes: Unpack[Sizes]) -> None:
        super().__init__(**sizes)
        self.module = module

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the module's scalar.

        Raises:
            ValueError: if it is not a scalar, or does not depend on the features.
        """
        value: Tensor = self.module(z, y)
        if value.ndim != 0 or (torch.is_grad_enabled() and not value.requires_grad):
            raise ValueError(
                f"{type(self.module).__name__}: must return a scalar tensor attached to z, found"
                f" shape {tuple(value.shape)}, requires_grad={value.requires_grad}"
            )
        classes = torch.arange(self.num_classes, device=y.device)
        present = (y.unsqueeze(1) == classes).any(0).sum()
        return value, {"classes": present, "active": z.new_ones(())}
