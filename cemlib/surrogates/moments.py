"""Weighted statistics of the groups of a batch, for the surrogates with attention.

Shapes: B samples, R rows (one per group), S weightings, D feature dimensions.
"""

import torch
from torch import Tensor

from cemlib.surrogates.groups import Groups

VARIANCE_FLOOR = 1e-6


def softmax(scores: Tensor, groups: Groups) -> Tensor:
    """Return the softmax of (B, S) over the members of each row; 0 without a row."""
    spread = scores.detach().unsqueeze(1)
    others = (groups.member == 0).unsqueeze(-1)
    largest = spread.masked_fill(others, -torch.inf).amax(0)  # (R, S)
    outside = ~groups.inside.unsqueeze(-1)
    raised = (scores - largest[groups.row]).masked_fill(outside, -torch.inf).exp()
    # The largest member contributes exactly 1, so the clamp acts on rows without members only.
    return raised / groups.total(raised).clamp_min(1.0)[groups.row]


def weighted_mean(values: Tensor, groups: Groups) -> Tensor:
    """Return the mean of (R,), weighted by the sizes of the rows; 0 if all are empty."""
    return (values * groups.sizes).sum() / groups.sizes.sum().clamp_min(1.0)


def weighted_sum(values: Tensor, weights: Tensor, groups: Groups) -> Tensor:
    """Return the sums of (B, D) over the members of each row with weights (B, S), (R, S, D)."""
    spread = groups.member.unsqueeze(-1) * weights.unsqueeze(1)  # (B, R, S)
    return torch.einsum("brs,bd->rsd", spread, values)


def weighted_moments(values: Tensor, weights: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    """Return `mu = sum_i w_i x_i` and `v = sum_i w_i (x_i - mu)^2` of each row, both (R, S, D).

    The weights (B, S) sum to 1 over the members of each row.
    """
    mean = weighted_sum(values, weights, groups)
    # dv/dmu = -2 sum_i w_i (x_i - mu) is 0, so no gradient through the mean is needed. This form
    # keeps small variances, which E[x^2] - mu^2 would lose to rounding.
    residual = values.unsqueeze(1) - mean.detach()[groups.row]  # (B, S, D)
    return mean, groups.total(weights.unsqueeze(-1) * residual.square())


def ceiling(noise_std: float, var_threshold: float) -> float:
    """Return tau = max(rho sigma^2, 1e-8) + 1e-6, the variance above which a hinge penalises."""
    return max(var_threshold * noise_std**2, 1e-8) + VARIANCE_FLOOR


def attention_width(dim: int) -> int:
    """Return the hidden width for D features, min(512, max(64, D // 4))."""
    return min(512, max(64, dim // 4))
