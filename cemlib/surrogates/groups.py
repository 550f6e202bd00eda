"""The groups of a batch, such as its classes, and their weighted statistics, as tensor operations.

Shapes: B samples, R rows (one per group), S weightings, D feature dimensions. Nothing reads a
tensor on the host, so a training step never waits for it. Sums over a group are products with a
membership matrix: unlike atomic scatter additions on a GPU, they give the same bits in every run.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

VARIANCE_FLOOR = 1e-6


@dataclass(frozen=True)
class Groups:
    """The labels with at least `smallest` samples in a batch, one row each.

    The number of rows follows from the shapes alone: min(labels, max(1, B // smallest)). Unused
    rows have size 0 and no members.
    """

    labels: Tensor  # (R,) label of each row: larger groups first, ties in label order
    sizes: Tensor  # (R,) float, number of members of each row
    member: Tensor  # (B, R) 1 where the sample belongs to the row, else 0
    row: Tensor  # (B,) row of each sample; 0 for a sample without a row
    inside: Tensor  # (B,) bool, whether the sample has a row

    @property
    def valid(self) -> Tensor:
        """Return 1 for rows with members and 0 for the others, (R,)."""
        return (self.sizes > 0).to(self.sizes)

    def total(self, values: Tensor) -> Tensor:
        """Sum over the members of each row: from (B, ...) to (R, ...)."""
        summed: Tensor = torch.tensordot(self.member, values, dims=([0], [0]))
        return summed

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of (R,) over the rows with members; 0 if there are none."""
        return (values * self.valid).sum() / self.valid.sum().clamp_min(1.0)

    def weighted_mean(self, values: Tensor) -> Tensor:
        """Return the mean of (R,), weighted by the sizes of the rows; 0 if all are empty."""
        return (values * self.sizes).sum() / self.sizes.sum().clamp_min(1.0)

    def softmax(self, scores: Tensor) -> Tensor:
        """Return the softmax of (B, S) over the members of each row; 0 without a row."""
        spread = scores.detach().unsqueeze(1)
        others = (self.member == 0).unsqueeze(-1)
        largest = spread.masked_fill(others, -torch.inf).amax(0)  # (R, S)
        outside = ~self.inside.unsqueeze(-1)
        raised = (scores - largest[self.row]).masked_fill(outside, -torch.inf).exp()
        # The largest member contributes exactly 1: the clamp acts on rows without members only.
        return raised / self.total(raised).clamp_min(1.0)[self.row]

    def weighted_sum(self, values: Tensor, weights: Tensor) -> Tensor:
        """Return the sums of (B, D) over the members of each row by weights (B, S): (R, S, D)."""
        spread = self.member.unsqueeze(-1) * weights.unsqueeze(1)  # (B, R, S)
        return torch.einsum("brs,bd->rsd", spread, values)

    def weighted_moments(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return `mu = sum_i w_i x_i` and `v = sum_i w_i (x_i - mu)^2` of each row, both (R, S, D).

        The weights (B, S) sum to 1 over the members of each row.
        """
        mean = self.weighted_sum(values, weights)
        # dv/dmu = -2 sum_i w_i (x_i - mu) is 0, so no gradient through the mean is needed. This
        # form keeps small variances, which E[x^2] - mu^2 would lose to rounding.
        residual = values.unsqueeze(1) - mean.detach()[self.row]  # (B, S, D)
        return mean, self.total(weights.unsqueeze(-1) * residual.square())


def count(y: Tensor, num_labels: int) -> Tensor:
    """Count the samples of each label, (num_labels,), without reading the device."""
    return (y.unsqueeze(1) == torch.arange(num_labels, device=y.device)).sum(0)


def group(y: Tensor, num_labels: int, *, smallest: int, dtype: torch.dtype) -> Groups:
    """Group a batch by its labels y in [0, num_labels), (B,); sizes and `member` have the dtype."""
    rows = min(num_labels, max(1, len(y) // smallest))
    sizes, labels = count(y, num_labels).sort(descending=True, stable=True)
    sizes, labels = sizes[:rows], labels[:rows]
    enough = sizes >= smallest
    member = (y.unsqueeze(1) == labels) & enough
    return Groups(
        labels=labels,
        sizes=(sizes * enough).to(dtype),
        member=member.to(dtype),
        row=(member * torch.arange(rows, device=y.device)).sum(1),
        inside=member.any(1),
    )


def ceiling(noise_std: float, var_threshold: float) -> float:
    """Return tau = max(rho sigma^2, 1e-8) + 1e-6, the variance above which a hinge penalises."""
    return max(var_threshold * noise_std**2, 1e-8) + VARIANCE_FLOOR


def attention_width(dim: int) -> int:
    """Return the hidden width for D features, min(512, max(64, D // 4))."""
    return min(512, max(64, dim // 4))
