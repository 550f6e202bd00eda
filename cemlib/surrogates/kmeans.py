"""K-means inside every class, all classes as one batched tensor problem.

Source: Lloyd (1982); k-means++ starting points, Arthur and Vassilvitskii (2007).

The samples of a class are gathered into a rectangle (classes, largest class, D) and centred on
their class mean, so that distances by products keep their digits when features contract.

Memory: the classes are taken in blocks of similar size, each of at most `BLOCK` padded feature
values or of one class where a single class is larger. Beyond input and result, at most two such
blocks exist at a time (2 x 16 MiB in float32, or twice the largest class) plus about 2K/D of one:
blocks of a cache's size are passed over three times as fast as one of everything.

How it fails: a class with fewer than K distinct samples has clusters without members. They keep
their place with weight 0 and variance 0, take part in no sum, and may win members in a later fit.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

BLOCK = 2**22
MAX_STEPS = 50


@dataclass(frozen=True)
class Clusters:
    """K clusters of each of C classes; a class with all weights 0 has none yet."""

    means: Tensor  # (C, K, D) centroids
    weights: Tensor  # (C, K) share of the class's samples, each row sums to 1 or is all 0
    variances: Tensor  # (C, K, D) mean over members of (z - centroid)^2


def fit_clusters(
    z: Tensor,
    y: Tensor,
    means: Tensor,
    weights: Tensor,
    generator: torch.Generator,
    *,
    max_steps: int = MAX_STEPS,
    block: int = BLOCK,
) -> Clusters:
    """Cluster every class, from the previous centroids where the class has any.

    Args:
        z: features, (N, D).
        y: labels in [0, C), (N,).
        means: centroids of the last fit, (C, K, D).
        weights: weights of the last fit, (C, K); classes with all 0 start from k-means++.
        generator: source of the k-means++ draws, on the CPU.
        max_steps: most Lloyd steps.
        block: most padded feature values worked on at a time; no result depends on it.

    Returns:
        The new clusters. Empty ones keep their centroid, with weight and variance 0.
    """
    index, sizes = padded_index(y, len(means))
    draws = _draws(len(y), means.shape[1], generator).to(z.device)
    fitted = Clusters(means.clone(), weights.clone(), means.clone())
    for ids in class_blocks(sizes * z.shape[1], block):
        held = index[ids, : largest(sizes[ids])]
        x = z.index_select(0, held.flatten()).view(*held.shape, -1)
        new = _fit_block(x, sizes[ids], means[ids], weights[ids], draws[held], max_steps)
        fitted.means[ids], fitted.weights[ids], fitted.variances[ids] = new
    return fitted


def _draws(samples: int, clusters: int, generator: torch.Generator) -> Tensor:
    """Draw exponential numbers (N, K): argmax of weight / draw picks in proportion to weight."""
    draws = torch.empty(samples, clusters).exponential_(generator=generator)
    return draws.clamp_min_(torch.finfo(draws.dtype).tiny)


def largest(sizes: Tensor) -> int:
    """Return the width of the rectangle that classes of these sizes need, at least 1."""
    return max(1, int(sizes.max()))


def class_blocks(values: Tensor, block: int) -> list[Tensor]:
    """Divide the ids of classes into blocks, from large to small.

    Args:
        values: how many values the rectangle of each class alone has, (C,).
        block: most values of a block in which every class takes as many as its largest.
    """
    ordered, ids = values.sort(descending=True, stable=True)
    widths = ordered.tolist()
    cuts = [0]
    while cuts[-1] < len(widths):
        width = max(1, widths[cuts[-1]])
        cuts.append(min(len(widths), cuts[-1] + max(1, block // width)))
    return [ids[start:stop] for start, stop in pairwise(cuts)]


def centre_(x: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Centre a rectangle x (c, M, D) of classes in place, with 0 where it is padding.

    Returns:
        1 where there is a sample, (c, M), and the class means, (c, 1, D).
    """
    mask = (torch.arange(x.shape[1], device=x.device) < sizes.unsqueeze(1)).to(x)
    centre = torch.einsum("cm,cmd->cd", mask, x) / sizes.clamp_min(1).unsqueeze(1)
    centre = centre.unsqueeze(1)
    x.sub_(centre).mul_(mask.unsqueeze(-1))
    return mask, centre


def _fit_block(
    x: Tensor, sizes: Tensor, means: Tensor, weights: Tensor, draws: Tensor, max_steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Cluster classes given as a rectangle x (c, M, D), which is overwritten; draws (c, M, K)."""
    mask, centre = centre_(x, sizes)
    means = _start(x, mask, means - centre, weights, draws)
    means = _lloyd(x, mask, means, max_steps)
    joined = joining(x, mask, means)
    members = joined.sum(1)  # (c, K)
    squares = x.baddbmm_(joined, means, alpha=-1).square_()
    variances = (joined.mT @ squares) / members.clamp_min(1).unsqueeze(-1)
    return means + centre, members / sizes.clamp_min(1).unsqueeze(1), variances


def _start(x: Tensor, mask: Tensor, warm: Tensor, weights: Tensor, draws: Tensor) -> Tensor:
    """Return first centroids (c, K, D): the given ones, or drawn where a class has no weights."""
    known = weights.sum(1) > 0
    if bool(known.all()):
        return warm
    return torch.where(known.view(-1, 1, 1), warm, _plus_plus(x, mask, draws))


def _plus_plus(x: Tensor, mask: Tensor, draws: Tensor) -> Tensor:
    """Draw each next centroid among the members in proportion to their squared distances."""
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


def joining(x: Tensor, mask: Tensor, means: Tensor) -> Tensor:
    """Return 1 where a sample's nearest centroid is k, else 0, (c, M, K); 0 for padding."""
    norms = means.square().sum(-1).unsqueeze(1)
    nearest = torch.baddbmm(norms, x, means.mT, alpha=-2).argmin(-1, keepdim=True)
    joined = x.new_zeros(*x.shape[:2], means.shape[1])
    return joined.scatter_(-1, nearest, mask.unsqueeze(-1))


def _lloyd(x: Tensor, mask: Tensor, means: Tensor, max_steps: int) -> Tensor:
    """Take Lloyd steps until no sample changes its cluster; empty clusters stay where they are."""
    last = None
    for _ in range(max_steps):
        joined = joining(x, mask, means)
        if last is not None and torch.equal(joined, last):
            break
        members = joined.sum(1).unsqueeze(-1)  # (c, K, 1)
        means = torch.where(members > 0, (joined.mT @ x) / members.clamp_min(1), means)
        last = joined
    return means


def padded_index(y: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Return the places of the samples of each class, as a rectangle.

    Args:
        y: labels in [0, num_classes), (N,).
        num_classes: number of classes C.

    Returns:
        Positions in `y`, (C, M) with M the size of the largest class, in their original order and
        filled up with 0, and the sizes of the classes, (C,).
    """
    order = y.argsort(stable=True)
    sizes = torch.bincount(y, minlength=num_classes)
    labels = y[order]
    first = sizes.cumsum(0) - sizes
    place = torch.arange(len(y), device=y.device) - first[labels]
    index = torch.zeros(num_classes, int(sizes.max()), dtype=torch.long, device=y.device)
    index[labels, place] = order
    return index, sizes
