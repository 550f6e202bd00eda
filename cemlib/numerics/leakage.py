"""Bounds on the information in one release about its image, in nats, with one Gaussian per class.

    L_C = sum_k pi_k ( -log pi_k + 1/2 log |I + Sigma_k / sigma^2| )

bounds I(x; z + N(0, sigma^2 I)) from above, for class frequencies pi_k and covariances Sigma_k of
the clean features z. Source: Huber, Bailey, Durrant-Whyte and Hanebeck, "On entropy approximation
for Gaussian mixture random vectors", IEEE MFI 2008, used as in Xia et al., CVPR 2025.

With the n eigenvalues l_i >= 0 of the sample covariance of n + 1 samples, which are spread more
widely than those of Sigma, the formula underestimates L_C. For many samples and many dimensions the
unknown Sigma has instead

    log |I + Sigma / sigma^2|  =  max over t in [0, sigma^2] of
                                  sum_i log( (l_i + t) / sigma^2 ) + n (1 - t / sigma^2)

which at t = sigma^2 is the formula with the sample eigenvalues. It follows from the resolvent of a
sample covariance (Marchenko and Pastur, Math. USSR Sbornik 1(4), 1967): t is the noise at which the
sample covariance has the resolvent, up to a factor, that Sigma has at sigma^2. If n or more
directions stand out of the noise, the maximum is at t = 0, and the estimate is too low.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

HALVINGS = 60  # bisection steps for t, more than the bits of a float


def leakage_bound(z: Tensor, y: Tensor, noise_std: float) -> float:
    """Return L_C at the frequencies and (1/n) covariances of the given samples, in nats.

    It bounds the information about which *sample* was processed, for classes of any shape. For the
    population it is too low with few samples, and never above `leakage_estimate`, which has the
    same arguments and errors.
    """
    return _over_classes(z, y, noise_std, _plain)


def leakage_estimate(z: Tensor, y: Tensor, noise_std: float) -> float:
    """Estimate L_C, in nats, of the population of clean features z (N, D) with classes y (N,).

    The release adds Gaussian noise of standard deviation ``noise_std``. The estimate is the
    `leakage_nats` of all tables, infinite without noise, or if squares of z / noise_std overflow.

    Raises:
        ValueError: if shapes or types do not fit, ``z`` is empty or not finite, or ``noise_std`` is
            negative or not finite.

    Example:
        Forty samples of 30 standard normal features, whose L_C is 15 log 2 = 10.4.

        >>> z = torch.randn(40, 30, generator=torch.Generator().manual_seed(0))
        >>> one = torch.zeros(40, dtype=torch.long)
        >>> round(leakage_bound(z, one, 1.0), 1), round(leakage_estimate(z, one, 1.0), 1)
        (8.9, 10.4)
    """
    return _over_classes(z, y, noise_std, _corrected)


def _over_classes(
    z: Tensor, y: Tensor, noise_std: float, half_log_det: Callable[[Tensor], float]
) -> float:
    _check_features(z, y, noise_std)
    if noise_std == 0:
        return math.inf
    total = 0.0
    for label in torch.unique(y):
        members = z.detach()[y == label].double() / noise_std
        if not members.square().sum().isfinite():
            return math.inf
        frequency = len(members) / len(z)
        total += frequency * (half_log_det(members) - math.log(frequency))
    return total


def _plain(members: Tensor) -> float:
    """Return ``1/2 log |I + Sigma|`` of members (n, D) with the (1/n) covariance as Sigma."""
    return float((_eigenvalues(members) / len(members)).log1p().sum()) / 2


def _corrected(members: Tensor) -> float:
    """Estimate ``1/2 log |I + Sigma|`` from members (n + 1, D)."""
    count = len(members) - 1
    if count == 0:
        return 0.0
    values = _eigenvalues(members) / count
    zeros = count - len(values)
    t = _level(values, zeros)
    # If there are eigenvalues of 0, t is above 0.
    logarithms = (values + t).log().sum() + (zeros * math.log(t) if zeros else 0.0)
    return float(logarithms + count * (1 - t)) / 2


def _level(values: Tensor, zeros: int) -> float:
    """Return t in [0, 1] at which the harmonic mean of l + t is 1, or 0 if it is always above."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        t = (low + high) / 2
        above = float((values + t).reciprocal().sum()) + zeros / t < len(values) + zeros
        low, high = (low, t) if above else (t, high)
    return high


def _eigenvalues(members: Tensor) -> Tensor:
    """Return the at most n non-zero eigenvalues, descending, of the scatter of (n + 1, D)."""
    centred = members - members.mean(0)
    wide = len(centred) < centred.shape[1]
    scatter = centred @ centred.T if wide else centred.T @ centred
    values: Tensor = torch.linalg.eigvalsh(scatter)
    return values.flip(0).clamp_min(0).cpu()[: len(members) - 1]


def _check_features(z: Tensor, y: Tensor, noise_std: float) -> None:
    if z.ndim != 2 or z.numel() == 0 or y.shape != z.shape[:1]:
        raise ValueError(
            f"z must be (N, D) and y (N,), not empty, got {tuple(z.shape)} and {tuple(y.shape)}"
        )
    if not z.is_floating_point() or y.is_floating_point():
        raise ValueError(f"z must be floating point and y integers, got {z.dtype} and {y.dtype}")
    if not (math.isfinite(noise_std) and noise_std >= 0):
        raise ValueError(f"noise_std must be a finite number of at least 0, got {noise_std}")
    if not z.isfinite().all():
        raise ValueError("z holds values that are not finite: the features have diverged")
