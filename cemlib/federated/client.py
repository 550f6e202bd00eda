"""One client's step: mix in a pseudo image, compute the gradient, mask it.

Everything is a function of weights by name, so that one client's step can be mapped over a stack of
clients, and an attack can differentiate through it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor
from torch.func import grad_and_value
from torch.nn import functional as F

from cemlib.federated.mask import Order, draw_columns, mask, masked, scores
from cemlib.federated.network import FederatedNet, Weights, features, logits


@dataclass(frozen=True)
class Masking:
    """How the gradient is masked.

    Attributes:
        alpha: Share (float) or number (int) of features that are masked.
        beta: Share (float) or number (int) of outputs whose column of H is the mask.
        order: Which features have the smallest scores (`cemlib.federated.mask`).
        images: So many of a step's images, the first, decide the scores; None for all.
    """

    alpha: float
    beta: float
    order: Order = "ours"
    images: int | None = None


def mixed(x: Tensor, pseudo: Tensor, lam: Tensor | float) -> Tensor:
    """Return lam x + (1 - lam) pseudo, both (B, C, H, W), lam a number or (B, 1, 1, 1)."""
    return lam * x + (1 - lam) * pseudo


def loss(net: FederatedNet, weights: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of images (B, C, H, W) with labels (B,)."""
    return F.cross_entropy(logits(net, weights, x), y)


def gradients(
    net: FederatedNet, weights: Weights, x: Tensor, y: Tensor
) -> tuple[dict[str, Tensor], Tensor]:
    """Gradient of the mean cross-entropy by parameter name, and the loss."""
    found, value = grad_and_value(lambda w: loss(net, w, x, y))(weights)
    return found, value


def step_mask(net: FederatedNet, weights: Weights, x: Tensor, how: Masking) -> Tensor:
    """The mask (l,) of a step on images (B, C, H, W)."""
    found = scores(partial(features, net, weights), x[: how.images], how.order)
    return mask(found, how.alpha)


def perturbed_gradients(
    net: FederatedNet, weights: Weights, x: Tensor, y: Tensor, how: Masking, columns: Tensor
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """What a client's step yields under a mask.

    Args:
        net: the network.
        weights: its weights at the step.
        x: images (B, C, H, W) as trained on, mixed already.
        y: labels (B,).
        how: the mask's settings.
        columns: (outputs,) of 0 and 1, the columns of H that the mask replaces.

    Returns:
        Gradients by parameter name, the loss, and the mask (l,).
    """
    found, value = gradients(net, weights, x, y)
    kept = step_mask(net, weights, x, how)
    return masked(found, kept, columns), value, kept


def columns_of(net: FederatedNet, how: Masking, generator: Generator) -> Tensor:
    """Draw the columns of H that a step's mask replaces: (outputs,) of 0 and 1."""
    return draw_columns(how.beta, net.classifier.out_features, generator)


def descend(weights: Weights, gradients: Mapping[str, Tensor], lr: float) -> Weights:
    """One step of gradient descent."""
    return {name: torch.sub(w, gradients[name], alpha=lr) for name, w in weights.items()}
