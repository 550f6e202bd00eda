"""The groups of a batch, such as its classes, as batched tensor operations.

Shapes: B samples, R rows (one per group). Nothing loops over classes or samples, and nothing reads
a tensor on the host, so a training step never waits for it. Sums over a group are products with a
membership matrix. Unlike atomic scatter additions on a GPU, they give the same bits in every run,
in the forward and the backward pass.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """The labels with at least `smallest` samples in a batch, one row each.

    The number of rows follows from the shapes alone: min(labels, B // smallest). Unused rows have
    size 0 and no members.
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
