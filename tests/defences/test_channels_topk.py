"""Top-k pruning against a loop over samples."""

import math

import numpy as np
import pytest
import torch

from cemlib.defences.channels import build
from cemlib.numerics.seeds import generator


def loop(row: np.ndarray, count: int) -> tuple[float, set[int], set[int]]:
    """Magnitude at the border, what is kept for certain, and what ties there."""
    order = np.sort(np.abs(row))[::-1]
    border = order[count - 1]
    above = {i for i, value in enumerate(row) if abs(value) > border}
    return border, above, {i for i, value in enumerate(row) if abs(value) == border}


@pytest.mark.parametrize("keep", [0.01, 0.2, 0.5, 0.9, 1.0])
def test_exactly_k_of_the_largest_stay_with_ties(keep: float) -> None:
    z = torch.randint(-4, 5, (50, 4, 3, 2), generator=generator(0, "z")).float()
    pruned = build("topk", noise_std=0.0, keep=keep).shape(z).flatten(1).numpy()
    count = math.ceil(keep * 24)
    for row, found in zip(z.flatten(1).numpy(), pruned, strict=True):
        border, above, ties = loop(row, count)
        kept = set(np.flatnonzero(found).tolist())
        assert above <= kept <= above | ties
        assert len(kept) == (count if border > 0 else np.count_nonzero(row))
        assert all(found[i] == row[i] for i in kept)


@pytest.mark.parametrize(
    ("keep", "dim", "count"), [(0.2, 512, 103), (0.07, 100, 7), (0.001, 8, 1), (1.0, 8, 8)]
)
def test_the_share_is_rounded_up_without_rounding_errors(keep: float, dim: int, count: int) -> None:
    z = torch.rand(3, dim, generator=generator(0, "z")) + 0.1
    assert ((build("topk", noise_std=0.0, keep=keep).shape(z) != 0).sum(1) == count).all()
