"""Stratified splits of index sets, exact and reproducible."""

import torch
from torch import Generator, Tensor


def allocate(counts: Tensor, total: int) -> Tensor:
    """Share ``total`` among classes in proportion to ``counts`` (C,), by largest remainder.

    Integer arithmetic throughout; equal remainders favour the lower class index. No class gets
    more than it has, and none is further than 1 from its exact share.

    >>> allocate(torch.tensor([5, 3, 2]), 4)
    tensor([2, 1, 1])
    """
    shares = counts * total
    population = int(counts.sum())
    base = shares.div(population, rounding_mode="floor")
    left = total - int(base.sum())
    largest = (shares % population).argsort(descending=True, stable=True)[:left]
    return base.index_add(0, largest, torch.ones_like(largest))


def stratified(labels: Tensor, total: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw ``total`` of the positions of ``labels`` (N,), the same share from every class.

    Returns:
        The chosen positions and the others, each in ascending order.
    """
    counts = labels.bincount()
    order = torch.randperm(len(labels), generator=generator)
    order = order[labels[order].argsort(stable=True)]
    rank = torch.arange(len(labels)) - (counts.cumsum(0) - counts)[labels[order]]
    chosen = rank < allocate(counts, total)[labels[order]]
    return order[chosen].sort().values, order[~chosen].sort().values


def shuffled(index: Tensor, generator: Generator) -> Tensor:
    """Return ``index`` (N,) in random order."""
    return index[torch.randperm(len(index), generator=generator)]
