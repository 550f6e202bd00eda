"""Compute gradients of independent problems, stacked, and distances between gradients.

A problem is one shared gradient: the mean over the B images of a batch. Problems are tiny, so many
are solved at once: the first axis of every tensor holds P problems, none depending on another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.func import vmap

from cemlib.federated.network import BIAS, WEIGHT, FederatedNet, gradients, weights_of

Gradients = dict[str, Tensor]

_TINY = 1e-37  # about the smallest squared norm that float32 holds


@dataclass(frozen=True)
class Shared:
    """Gradients as the server sees them, and what else an attacker may know."""

    gradients: Gradients  # by parameter name, each (P, *shape of the parameter)
    prior: Tensor  # the attacker's mean image of each class, (classes, C, H, W)
    batch: int = 1  # number B of images behind each gradient
    # Zeros and ones (P, outputs, l) by which the gradient of the last layer's weight was
    # multiplied; None if it was not. Only an attack with `mask: known` may read it.
    mask: Tensor | None = None
    # Number of local steps, on B / steps images each; a gradient is the mean of theirs.
    steps: int = 1
    lr: float = 0.0  # learning rate of those steps

    def __len__(self) -> int:
        return len(self.gradients[BIAS])


def gradient_function(
    net: FederatedNet, steps: int = 1, lr: float = 0.0
) -> Callable[[Tensor, Tensor], Gradients]:
    """Return a differentiable function that computes the mean gradients of plain local steps.

    It maps images (P, B, C, H, W) and label distributions (P, B, classes) to gradients by name,
    each (P, *shape), from the present weights of `net`. Each step descends the mean loss of
    B / steps of the images, in their order.
    """
    weights = weights_of(net)

    def update(weights: Gradients, images: Tensor, targets: Tensor) -> Gradients:
        found: list[Gradients] = []
        for x, t in zip(images.chunk(steps), targets.chunk(steps), strict=True):
            if found:
                weights = {name: w - lr * found[-1][name] for name, w in weights.items()}
            found.append(gradients(net, weights, x, t)[0])
        return {name: torch.stack([each[name] for each in found]).mean(0) for name in weights}

    return partial(vmap(update, in_dims=(None, 0, 0)), weights)


def kept(whole: Gradients, entries: Tensor | None) -> Gradients:
    """Return gradients with the last layer's weight multiplied by `entries` (P, outputs, l)."""
    if entries is None:
        return whole
    return {**whole, WEIGHT: whole[WEIGHT] * entries}


def squared_distance(ours: Gradients, theirs: Gradients) -> Tensor:
    """Return the sum of squared differences over all parameters (P,)."""
    parts = [(ours[name] - theirs[name]).square().flatten(1).sum(1) for name in theirs]
    return torch.stack(parts).sum(0)


def cosine_distance(ours: Gradients, theirs: Gradients) -> Tensor:
    """Return one minus the cosine of the angle between whole gradients, (P,) in [0, 2]."""
    lengths = _length(ours) * _length(theirs)
    return 1 - _inner(ours, theirs) / lengths


def absolute_variation(images: Tensor) -> Tensor:
    """Return the mean absolute vertical plus horizontal difference (P,) in images (P, B, C, H, W).

    It is the anisotropic form of the total variation of Rudin, Osher and Fatemi (Physica D, 1992).
    """
    down, right = (images.diff(dim=side).abs().flatten(1).mean(1) for side in (-2, -1))
    return down + right


def _length(whole: Gradients) -> Tensor:
    return _inner(whole, whole).clamp(min=_TINY).sqrt()


def _inner(a: Gradients, b: Gradients) -> Tensor:
    return torch.stack([(a[name] * b[name]).flatten(1).sum(1) for name in b]).sum(0)
