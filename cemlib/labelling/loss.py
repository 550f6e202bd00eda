"""Weight each answer in the loss by its certainty: the information-entropy loss.

    P = clipped counts / their sum
    weight = 1 + sum_j P_j log P_j / log k                 in [0, 1]
    J = -1/N sum_i weight_i sum_j Y_ij log Yhat_ij + regulariser

Y is the class with the largest noisy count, one-hot. A participant's own labelled images have
weight 1. The regulariser is the optimiser's L2 term. Source: the loss of PCTC, collaborative
training by private labels, whose text does not have the alternative weight `posterior`.
"""

import math
from functools import reduce

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot, pad


def answered(counts: Tensor) -> Tensor:
    """Return which queries (Q,) have an answer: those with a positive count among (Q, k)."""
    return (counts > 0).any(dim=1)


def certainty(counts: Tensor) -> Tensor:
    """Return the weight (Q,) of each answer: 1 if one class has all votes, 0 if all are equal.

    The noisy counts (Q, k) are of at least two classes, and every row must be `answered`.

    Example:
        >>> certainty(torch.tensor([[7.0, 0.0], [3.0, 3.0], [5.0, -2.0]])).tolist()
        [1.0, 0.0, 1.0]
    """
    clipped = counts.clamp(min=0)
    shares = clipped / clipped.sum(dim=1, keepdim=True)
    entropy: Tensor = -torch.special.xlogy(shares, shares).sum(dim=1)
    return (1 - entropy / math.log(counts.shape[1])).clamp(0, 1)


def posterior(counts: Tensor, participants: int, sigma: float) -> Tensor:
    """Return the probability (Q,) that the class with the largest noisy count has the most votes.

    It is the posterior given `counts` (Q, k), each with noise N(0, sigma^2), if all tallies of one
    vote per participant are equally likely. A class that ties for the most votes has the most.

    Example:
        >>> posterior(torch.tensor([[9.0, 1.0], [6.0, 4.0]]), 10, sigma=2.0).round(decimals=3)
        tensor([0.9990, 0.8610], dtype=torch.float64)
    """
    rows, votes = torch.arange(len(counts)), torch.arange(participants + 1)
    if sigma == 0:
        return torch.ones(len(counts), dtype=torch.float64)
    likely = torch.exp(-((counts.double().unsqueeze(-1) - votes) / sigma).square() / 2)
    answer = counts.argmax(dim=1)
    own = likely[rows, answer]
    likely[rows, answer] = one_hot(votes[0], participants + 1).double()
    at_most = (votes <= votes.unsqueeze(1)).unsqueeze(1)  # [t, 1, n]: n votes are at most t
    won = _products(likely.unsqueeze(1) * at_most)[:, votes, participants - votes]
    every = _products(likely)[:, participants - votes]
    chance: Tensor = (own * won).sum(dim=1) / (own * every).sum(dim=1)
    return chance.clamp(0, 1)


def _products(polynomials: Tensor) -> Tensor:
    """Return the first `size` coefficients of the product of k polynomials (..., k, size)."""
    product, *others = polynomials.unbind(dim=-2)
    size = polynomials.shape[-1]
    for other in others:
        shifted = (pad(product, (n, 0))[..., :size] * other[..., n : n + 1] for n in range(size))
        product = reduce(torch.add, shifted)
    return product


def information_entropy_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Return the mean weighted cross-entropy (...) of a batch, for several networks at once.

    Logits are (..., B, k), labels (class indices) and weights in [0, 1] (..., B).
    """
    single = cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none")
    return (weights * single.view_as(weights)).mean(dim=-1)
