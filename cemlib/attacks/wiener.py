"""The best linear estimates of images and of clean features from releases.

With the covariances S of the mean releases and C of these with the pixels, their means m and b, and
the diagonal covariance V of the release noise, which the attacker knows,

    x^ = b + W^T (z~ - m),   W = (S + V + r I)^-1 C
    z^ = m + F (z~ - m),     F = (S + r I) (S + V + r I)^-1

are for r = 0 the best linear estimate and the Wiener filter. With few images S is uncertain, which
r > 0 accounts for: the r with the lowest error on held-out images is used. Sources: Wiener,
"Extrapolation, interpolation, and smoothing of stationary time series", 1949; Hoerl and Kennard,
Technometrics 12(1), 1970.

Where releases are the output of a sparse coding plus noise, the most probable input of the coding
takes the place of the release (`cemlib.models.uncoding`). S and C are then those of one such input
per image, V = 0, because they include the noise, and F is the identity.

It assumes noise that is uncorrelated between features.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from cemlib.attacks.task import Pairs, Task
from cemlib.models.decoder import LARGEST, LinearEstimate
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.ridge import best_ridge
from cemlib.numerics.seeds import generator

CHUNK = 4096

Undo = Callable[[Tensor], Tensor]


def linear_estimate(task: Task, undo: Undo | None = None) -> LinearEstimate:
    """Return the best linear estimates from the attacker's own pairs, computed in float64.

    If W would have more than `LARGEST` elements, W and F are empty. If a sparse coding is to be
    undone, `undo` maps releases (N, D) to what takes their place.

    Raises:
        DivergedError: if a feature is not finite.
    """
    if undo is None:
        clean, noise = task.moments()
    else:
        drawn = generator(task.seed, "attack_uncoding_noise", device=task.own.features.device)
        clean = _released(task, task.own, drawn, undo)
        noise = clean.new_zeros(clean.shape[1])
    mean, images = clean.mean(0, dtype=torch.float64), task.own.images
    intercept = images.flatten(1).sum(0, dtype=torch.float64) / (255 * len(images))
    check_features(mean)
    if len(mean) * len(intercept) > LARGEST:
        empty = mean.new_zeros(0, len(intercept)), mean.new_zeros(0, 0)
        return LinearEstimate(empty[0], mean.float(), intercept.float(), empty[1])
    covariance, cross = _covariances(clean, task.own, mean, intercept)
    values, vectors = torch.linalg.eigh(covariance + torch.diag(noise.double()))
    turned = vectors.T @ cross
    draws = generator(task.seed, "attack_ridge_noise", device=task.released.device)
    released = _released(task, task.held_out, draws, undo)
    truth = task.held_out.targets().flatten(1)
    scores = (released.double() - mean) @ vectors
    # For constant features without noise, every estimate is the mean.
    inverse = 1 / (values + best_ridge(values, turned, scores, intercept, truth))
    # F = I - V (S + V + r I)^-1 needs no product with an ill-conditioned S.
    wiener = torch.diag(torch.ones_like(noise)) - noise[:, None] * (vectors * inverse @ vectors.T)
    weights = vectors @ (inverse[:, None] * turned)
    return LinearEstimate(*(part.float() for part in (weights, mean, intercept, wiener)))


def _released(task: Task, pairs: Pairs, draws: torch.Generator, undo: Undo | None) -> Tensor:
    """Return one release (N, D) of each image, or what takes its place."""
    released = task.release(pairs.features, draws).flatten(1)
    return released if undo is None else torch.cat(list(map(undo, torch.split(released, CHUNK))))


def check_features(features: Tensor) -> None:
    """Raise a DivergedError unless all features are finite."""
    if not math.isfinite(features.sum(dtype=torch.float64).item()):
        raise DivergedError(
            "the client's features of the attacker's images are not finite; the attacked network"
            " has probably diverged"
        )


def _covariances(
    clean: Tensor, own: Pairs, mean: Tensor, intercept: Tensor
) -> tuple[Tensor, Tensor]:
    """Return S (D, D) and C (D, P) in float64, from chunks of the pairs."""
    covariance = mean.new_zeros(len(mean), len(mean))
    cross = mean.new_zeros(len(mean), len(intercept))
    for start in range(0, len(clean), CHUNK):
        rows = slice(start, start + CHUNK)
        z = clean[rows].double() - mean
        covariance.addmm_(z.T, z, alpha=1 / len(clean))
        x = own.targets(rows).flatten(1).double() - intercept
        cross.addmm_(z.T, x, alpha=1 / len(clean))
    return covariance, cross
