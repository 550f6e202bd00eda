"""Mask the gradient of the fully connected layer: the second perturbation.

The gradient of the layer's weights, `delta^T F`, reveals its input features F (B, l), and these the
image. To first order, zeroing F_i moves the reconstructed image by |F_i| / ||dF_i/dx||, so masking
the features with the *smallest* scores ||dF_i/dx|| / |F_i| hides most.

Sun, Li, Wang, Yang, Li and Chen, "Soteria: provable defense against privacy leakage in federated
learning from representation perspective", CVPR 2021, prune the features with the largest
||F_i (dF_i/dx)^-1||, which their code takes to be the smallest ||dF_i/dx|| / F_i: for one image,
the order is the same. They mask every output's row of the gradient, and we those of `beta` outputs.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.func import vjp, vmap

Order = Literal["ours", "soteria"]
CHUNK = 64  # features whose gradients with respect to the images are in memory at once


def scores(features_fn: Callable[[Tensor], Tensor], x: Tensor, order: Order = "ours") -> Tensor:
    """Return the scores ||dF_i/dx|| / |F_i| of all features (l,), by vector-Jacobian products.

    `features_fn` maps images x (B, C, H, W) to features (B, l), each image independently: one
    product with ones in column i therefore gives dF_i/dx of every image of the batch.

    Zeroing a zero feature changes nothing, so its score is infinite, and it is masked last. In a
    batch, `ours` is the mean of the ratios over the images where the feature is not zero, and
    `soteria` the absolute value of the sum of their signed ratios, which can cancel.
    """
    found, pull = vjp(features_fn, x)[:2]

    def norms(column: Tensor) -> Tensor:
        (gradient,) = pull(column.expand_as(found))
        length: Tensor = torch.linalg.vector_norm(gradient.flatten(1), dim=1)
        return length

    columns = torch.eye(found.shape[1], dtype=found.dtype, device=found.device)
    lengths: Tensor = vmap(norms, chunk_size=CHUNK)(columns).T
    features: Tensor = found.detach()
    zero = features == 0
    ratios = (lengths / features).masked_fill(zero, 0)
    images = (~zero).sum(0)
    total = ratios.abs().sum(0) / images.clamp(min=1) if order == "ours" else ratios.sum(0).abs()
    return total.masked_fill(images == 0, math.inf)


def mask(scores: Tensor, alpha: float) -> Tensor:
    """Return ones (l,), with zeros for the share `alpha` of the features with the smallest scores.

    Their number is rounded, halves to even. Equal scores keep their order; NaN counts as largest.
    """
    order = scores.argsort(stable=True)
    return torch.ones_like(scores).scatter(0, order[: round(alpha * len(scores))], 0.0)


def hadamard(mask: Tensor, columns: Tensor) -> Tensor:
    """Return H, transposed (outputs, l): the mask (l,) where columns (outputs,) is 1, else ones."""
    return 1 - columns.unsqueeze(1) * (1 - mask)


def draw_columns(beta: int | None, outputs: int, generator: Generator) -> Tensor:
    """Draw zeros and ones (outputs,), with ones in `beta` random places; None means in all."""
    chosen = torch.randperm(outputs, generator=generator)[:beta]
    return torch.zeros(outputs).scatter(0, chosen, 1)
