"""EM for a Gaussian mixture per class, all classes as one batched tensor problem.

Source: Dempster, Laird and Rubin, "Maximum Likelihood from Incomplete Data via the EM Algorithm",
1977. With N_c samples x_i of a class, one EM step is

    r_ik proportional to w_k N(x_i; mu_k, Sigma_k), summing to 1 over k
    n_k = sum_i r_ik,   w_k = n_k / N_c,   mu_k = sum_i r_ik x_i / n_k
    Sigma_k = sum_i r_ik (x_i - mu_k)(x_i - mu_k)^T / n_k + 1e-6 I, or its diagonal

A class stops when its mean log-likelihood gains less than 1e-3 in a step. Every fit starts from the
hard assignment to K-means clusters, which continue from the last means. The last mixture would be a
bad start: in many dimensions the features have left its narrow components by the next epoch, so its
widest component would get nearly all samples of a class, and EM never fills the others again.

EM is computed in float64: with far components and variances near 1e-6, the products in the
squared distances reach 1e8, of which float32 keeps no digit below 1.

Memory: classes are processed in blocks of at most `BLOCK` padded values, or of one class if that is
larger. With full covariances a class has K D^2 more values. Beyond input and result, at most eight
blocks exist at a time (8 x 32 MiB, or eight times the largest class), and before that the memory of
K-means.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from cemlib.surrogates.kmeans import assignments, fit_clusters
from cemlib.surrogates.tiles import centre_, class_blocks

BLOCK = 2**22
MAX_STEPS = 20
TOLERANCE = 1e-3
RIDGE = 1e-6  # added to every variance
SMALLEST_MASS = 1e-10  # sum of responsibilities below which a component is empty


class Mixtures(NamedTuple):
    """K Gaussians for each of C classes."""

    means: Tensor  # (C, K, D)
    weights: Tensor  # (C, K) each row sums to 1 or is all 0
    covariances: Tensor  # (C, K, D) diagonals, or (C, K, D, D)

    def where(self, chosen: Tensor, other: "Mixtures") -> "Mixtures":
        """Select from self where chosen, (C,) or (C, K), is true, and from other elsewhere."""
        pairs = zip(self, other, strict=True)
        return Mixtures(*(torch.where(_like(chosen, new), new, old) for new, old in pairs))


def _like(chosen: Tensor, values: Tensor) -> Tensor:
    return chosen.view(*chosen.shape, *[1] * (values.ndim - chosen.ndim))


def fit_mixtures(
    z: Tensor,
    y: Tensor,
    means: Tensor,
    weights: Tensor,
    generator: torch.Generator,
    *,
    full: bool = False,
) -> Mixtures:
    """Fit a mixture to the features (N, D) of every class, with labels (N,) in [0, C).

    K-means starts from the last fit's means (C, K, D), or from k-means++ with the CPU generator if
    a class's weights (C, K) are all 0. Covariances are `full` or diagonal. A component without
    samples gets weight 0, keeps its mean, and may win samples in a later fit. The result does not
    depend on `BLOCK`.
    """
    clusters = fit_clusters(z, y, means.to(z), weights.to(z), generator)
    centroids = clusters.means.to(torch.float64)
    identity = torch.eye(z.shape[1]).to(centroids) if full else centroids.new_ones(z.shape[1])
    covariances = identity.expand(*weights.shape, *identity.shape)
    empty = Mixtures(centroids, torch.zeros_like(centroids[..., 0]), covariances)
    fitted = Mixtures(*(values.new_empty(values.shape) for values in empty))
    more = covariances[0].numel()
    for ids, held, sizes in class_blocks(y, len(means), BLOCK, width=z.shape[1], more=more):
        x = z[held].to(torch.float64)
        new = _fit_block(x, sizes, Mixtures(*(values[ids] for values in empty)))
        for kept, found in zip(fitted, new, strict=True):
            kept[ids] = found
    return fitted


def _fit_block(x: Tensor, sizes: Tensor, empty: Mixtures) -> Mixtures:
    """Fit mixtures to a rectangle x (c, M, D) of classes, which is overwritten.

    `empty` has the centroids to start from, with weights of 0; a component that never gets a
    sample stays like that.
    """
    mask, centre = centre_(x, sizes)
    samples = (FullSamples if empty.covariances.ndim == 4 else DiagonalSamples)(x)
    start = empty._replace(means=empty.means - centre)
    mixture = _run_em(samples, mask, _m_step(samples, assignments(x, mask, start.means), start))
    return mixture._replace(means=mixture.means + centre)


class DiagonalSamples:
    """Samples x (c, M, D) of classes, for EM with diagonal covariances."""

    def __init__(self, x: Tensor) -> None:
        self.x, self.squares = x, x.square()

    def distances(self, mixture: Mixtures) -> tuple[Tensor, Tensor]:
        """Return squared Mahalanobis distances (c, M, K) and log determinants (c, K)."""
        precisions = mixture.covariances.reciprocal()
        scaled = mixture.means * precisions
        products = self.squares @ precisions.mT - 2 * (self.x @ scaled.mT)
        offsets = (mixture.means * scaled).sum(-1).unsqueeze(1)
        return products + offsets, mixture.covariances.log().sum(-1)

    def covariances(self, responsibilities: Tensor, means: Tensor, size: Tensor) -> Tensor:
        """Return the variances (c, K, D) about the means; `size` holds the sums (c, K, 1)."""
        variances = responsibilities.mT @ self.squares / size - means.square()
        return variances.clamp_min(0) + RIDGE


class FullSamples:
    """Samples x (c, M, D) of classes, for EM with full covariances, one component at a time."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def distances(self, mixture: Mixtures) -> tuple[Tensor, Tensor]:
        """Return squared Mahalanobis distances (c, M, K) and log determinants (c, K)."""
        factors = torch.linalg.cholesky_ex(mixture.covariances).L
        distances = []
        for mean, factor in zip(mixture.means.unbind(1), factors.unbind(1), strict=True):
            rows = self.x - mean.unsqueeze(1)
            white = torch.linalg.solve_triangular(factor.mT, rows, upper=True, left=False)
            distances.append(white.square_().sum(-1))
        return torch.stack(distances, -1), 2 * factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def covariances(self, responsibilities: Tensor, means: Tensor, size: Tensor) -> Tensor:
        """Return the covariances (c, K, D, D) about the means; `size` holds the sums (c, K, 1)."""
        found = []
        for mean, share in zip(means.unbind(1), responsibilities.unbind(-1), strict=True):
            rows = (self.x - mean.unsqueeze(1)).mul_(share.sqrt().unsqueeze(-1))
            found.append(rows.mT @ rows)
        covariances = torch.stack(found, 1).div_(size.unsqueeze(-1))
        covariances.diagonal(dim1=-2, dim2=-1).add_(RIDGE)
        return covariances


Samples = DiagonalSamples | FullSamples


def _run_em(samples: Samples, mask: Tensor, mixture: Mixtures) -> Mixtures:
    last = mask.new_full((len(mask),), -torch.inf)
    moving = torch.ones_like(last, dtype=torch.bool)
    for _ in range(MAX_STEPS):
        responsibilities, now = _e_step(samples, mask, mixture)
        # Where rounding has made a covariance indefinite, the class keeps its last mixture.
        moving = moving & now.isfinite()
        mixture = _m_step(samples, responsibilities, mixture).where(moving, mixture)
        moving = moving & (now - last >= TOLERANCE)
        last = now
        if not bool(moving.any()):
            break
    return mixture


def _e_step(samples: Samples, mask: Tensor, mixture: Mixtures) -> tuple[Tensor, Tensor]:
    """Return responsibilities (c, M, K), 0 for padding, and mean log-likelihoods (c,)."""
    distances, log_dets = samples.distances(mixture)
    constant = samples.x.shape[-1] * math.log(2 * math.pi)
    logs = mixture.weights.log() - (log_dets + constant) / 2
    logs = logs.unsqueeze(1) - distances / 2
    padding = mask == 0
    total = logs.logsumexp(-1).masked_fill(padding, 0)
    responsibilities = (logs - total.unsqueeze(-1)).exp().masked_fill(padding.unsqueeze(-1), 0)
    return responsibilities, total.sum(1) / mask.sum(1).clamp_min(1)


def _m_step(samples: Samples, responsibilities: Tensor, old: Mixtures) -> Mixtures:
    """Return the mixture of responsibilities (c, M, K); empty components do not move."""
    mass = responsibilities.sum(1)
    size = mass.clamp_min(SMALLEST_MASS).unsqueeze(-1)
    means = responsibilities.mT @ samples.x / size
    found = Mixtures(
        means=means,
        weights=mass / mass.sum(1, keepdim=True).clamp_min(1),
        covariances=samples.covariances(responsibilities, means, size),
    )
    return found.where(mass > SMALLEST_MASS, old._replace(weights=torch.zeros_like(mass)))
