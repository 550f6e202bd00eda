"""K-means inside every class, all classes as one batched tensor problem.

Source: Lloyd (1982); k-means++ starting points, Arthur and Vassilvitskii (2007). Samples are
gathered into a rectangle (classes, largest class, D) and centred on their class mean, so that
distances computed from products keep their digits when features contract.

Memory: classes of similar size are processed together in blocks of at most `BLOCK` padded values,
or of one class if that is larger. Beyond input and result, at most two blocks exist at a time
(2 x 16 MiB in float32, or twice the largest class), plus about 2K/D of one. Blocks that fit into
the cache of a CPU are three times as fast as one block of all classes; those on a GPU are larger.

A class with fewer than K distinct samples has clusters without members, of weight and variance 0,
which enter no sum but may win members in a later fit.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from cemlib.surrogates.tiles import centre_, class_blocks

BLOCK = 2**22
MAX_STEPS = 50


class Clusters(NamedTuple):
    """K clusters of each of C classes; all weights of a class are 0 before its first fit."""

    means: Tensor  # (C, K, D) centroids
    weights: Tensor  # (C, K) shares of the class's samples; each row sums to 1 or is all 0
    variances: Tensor  # (C, K, D) mean of (z - centroid)^2 over the members


def fit_clusters(
    z: Tensor, y: Tensor, means: Tensor, weights: Tensor, generator: torch.Generator
) -> Clusters:
    """Cluster the features (N, D) of every class, with labels (N,) in [0, C).

    A class starts from the last fit's means (C, K, D), or from k-means++ with the CPU generator if
    its weights (C, K) are all 0. Empty clusters keep their centroid. The result does not depend on
    `BLOCK`.
    """
    # argmax(weight / draw) picks in proportion to the weight.
    draws = torch.empty(len(y), means.shape[1]).exponential_(generator=generator)
    draws = draws.clamp_min_(torch.finfo(draws.dtype).tiny).to(z.device)
    fitted = Clusters(means.clone(), weights.clone(), means.clone())
    for ids, held, sizes in class_blocks(y, len(means), BLOCK, width=z.shape[1]):
        x = z.index_select(0, held.flatten()).view(*held.shape, -1)
        new = _fit_block(x, sizes, means[ids], weights[ids], draws[held])
        for kept, found in zip(fitted, new, strict=True):
            kept[ids] = found
    return fitted


def _fit_block(x: Tensor, sizes: Tensor, means: Tensor, weights: Tensor, draws: Tensor) -> Clusters:
    """Cluster a rectangle x (c, M, D) of classes, which is overwritten; draws (c, M, K)."""
    mask, centre = centre_(x, sizes)
    means, known = means - centre, weights.sum(1) > 0
    if not bool(known.all()):
        means = torch.where(known.view(-1, 1, 1), means, _plus_plus(x, mask, draws))
    means = _lloyd(x, mask, means)
    assigned = assignments(x, mask, means)
    members = assigned.sum(1)  # (c, K)
    squares = x.baddbmm_(assigned, means, alpha=-1).square_()
    variances = (assigned.mT @ squares) / members.clamp_min(1).unsqueeze(-1)
    return Clusters(means + centre, members / sizes.clamp_min(1).unsqueeze(1), variances)


def _plus_plus(x: Tensor, mask: Tensor, draws: Tensor) -> Tensor:
    """Draw first centroids (c, K, D) by k-means++, in proportion to the squared distances."""
    classes = torch.arange(len(x), device=x.device)
    norms = torch.linalg.vector_norm(x, dim=-1).square()
    chosen = []
    chances = mask
    for pick in range(draws.shape[-1]):
        new = x[classes, (chances / draws[..., pick]).argmax(1)]  # (c, D)
        chosen.append(new)
        products = torch.einsum("cmd,cd->cm", x, new)
        distance = (norms - 2 * products + new.square().sum(-1, keepdim=True)).clamp_min(0) * mask
        chances = distance if pick == 0 else torch.minimum(chances, distance)
    return torch.stack(chosen, 1)


def assignments(x: Tensor, mask: Tensor, means: Tensor) -> Tensor:
    """Return 1 where centroid k is a sample's nearest one, else 0, (c, M, K); 0 for padding."""
    norms = means.square().sum(-1).unsqueeze(1)
    nearest = torch.baddbmm(norms, x, means.mT, alpha=-2).argmin(-1, keepdim=True)
    assigned = x.new_zeros(*x.shape[:2], means.shape[1])
    return assigned.scatter_(-1, nearest, mask.unsqueeze(-1))


def _lloyd(x: Tensor, mask: Tensor, means: Tensor) -> Tensor:
    """Take Lloyd steps until no sample changes its cluster; empty clusters do not move."""
    last = None
    for _ in range(MAX_STEPS):
        assigned = assignments(x, mask, means)
        if last is not None and torch.equal(assigned, last):
            break
        members = assigned.sum(1).unsqueeze(-1)  # (c, K, 1)
        means = torch.where(members > 0, (assigned.mT @ x) / members.clamp_min(1), means)
        last = assigned
    return means
