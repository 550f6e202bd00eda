"""The best linear estimates of images and of clean features from releases.

With the covariances S of the mean releases and C of these with the pixels, their means m and b, and
the diagonal covariance V of the release noise, which the attacker knows,

    x^ = b + W^T (z~ - m),   W = (S + V + r I)^-1 C          the least squared error of all linear
    z^ = m + F (z~ - m),     F = (S + r I) (S + V + r I)^-1  (the Wiener filter)

for r = 0. Sparse coding mixes all features, and no convolution can undo that. Where the client ends
in one, z^ is therefore an estimate of its input u, which a white-box attacker knows of its images:

    z^ = m + U^T (z~ - m),   U = (S + V + r I)^-1 Cov(z, u)

With few images S is uncertain, which r > 0 accounts for: the r with the lowest error on
held-out images is used. Sources: Wiener, "Extrapolation, interpolation, and smoothing of stationary
time series", 1949; Hoerl and Kennard, Technometrics 12(1), 1970.

It assumes noise that is uncorrelated between features. Non-linear information in a release is left
to other attacks.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.attacks.task import Task
from cemlib.models.decoder import LARGEST, LinearEstimate
from cemlib.numerics.divergence import check_finite
from cemlib.numerics.seeds import generator

CHUNK = 4096
SMALLEST = 1e-30  # smallest mean variance of a feature
RIDGES = tuple(10.0**power for power in range(-8, 2))  # r, as multiples of the mean variance


def linear_estimate(task: Task) -> LinearEstimate:
    """Return the best linear estimates from the attacker's own pairs, computed in float64.

    If W would have more than `LARGEST` elements, W and F are empty.

    Raises:
        DivergedError: if a feature is not finite.
    """
    clean, noise = task.victim.channel.moments(task.own.features.flatten(1), task.queries)
    mean, images = clean.mean(0, dtype=torch.float64), task.own.images
    intercept = images.flatten(1).sum(0, dtype=torch.float64) / (255 * len(images))
    check_finite(0, features=mean.sum().item())
    if len(mean) * len(intercept) > LARGEST:
        empty = mean.new_zeros(0, len(intercept)), mean.new_zeros(0, 0)
        return LinearEstimate(empty[0], mean.float(), intercept.float(), empty[1])
    covariance, cross, coded = _covariances(clean, task, mean, intercept)
    values, vectors = torch.linalg.eigh(covariance + torch.diag(noise.double()))
    # For constant features without noise, every estimate is the mean.
    ridges = values.mean().clamp_min(SMALLEST) * torch.tensor(RIDGES).to(values)
    turned = vectors.T @ cross
    draws = generator(task.seed, "attack_ridge_noise", device=task.released.device)
    released = task.release(task.held_out.features, draws).flatten(1)  # of the held-out images
    truth = task.held_out.targets().flatten(1)
    scores = (released.double() - mean) @ vectors
    answers = ((scores / (values + r) @ turned + intercept).float().clamp(0, 1) for r in ridges)
    errors = torch.stack([F.mse_loss(answer, truth) for answer in answers])
    inverse = 1 / (values + ridges[errors.argmin()])
    # F = I - V (S + V + r I)^-1 needs no product with an ill-conditioned S.
    wiener = torch.diag(torch.ones_like(noise)) - noise[:, None] * (vectors * inverse @ vectors.T)
    if coded is not None:
        wiener[: coded.shape[1]] = (vectors @ (inverse[:, None] * (vectors.T @ coded))).T
    weights = vectors @ (inverse[:, None] * turned)
    return LinearEstimate(*(part.float() for part in (weights, mean, intercept, wiener)))


def _covariances(
    clean: Tensor, task: Task, mean: Tensor, intercept: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return S (D, D), C (D, P) and, with sparse coding, Cov(z, u), from chunks, in float64."""
    own, uncoded = task.own, task.victim.model.uncoded
    covariance = mean.new_zeros(len(mean), len(mean))
    cross = mean.new_zeros(len(mean), len(intercept))
    coded = mean.new_zeros(len(mean), math.prod(task.victim.model.feature_shape))
    for start in range(0, len(clean), CHUNK):
        rows = slice(start, start + CHUNK)
        z = clean[rows].double() - mean
        covariance.addmm_(z.T, z, alpha=1 / len(clean))
        x = own.targets(rows).flatten(1).double() - intercept
        cross.addmm_(z.T, x, alpha=1 / len(clean))
        if uncoded is not None:
            with torch.no_grad():
                u = uncoded(own.targets(rows)).flatten(1).double()
            coded.addmm_(z.T, u, alpha=1 / len(clean))
    return covariance, cross, coded if uncoded is not None else None
