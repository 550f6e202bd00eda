"""Batches cover a split once, in float, in the order asked for."""

import numpy as np
import pytest
import torch

from cemlib.data.batches import batches, to_float
from cemlib.data.prepared import Split


def numbered(count: int) -> Split:
    images = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 2, 2)
    return Split(images.contiguous(), torch.arange(count))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_every_value_becomes_a_fraction_of_255() -> None:
    values = torch.arange(256, dtype=torch.uint8)
    found = to_float(values)
    assert found.dtype == torch.float32
    assert np.array_equal(found.numpy(), np.arange(256, dtype=np.float32) / np.float32(255))


def test_stored_order_keeps_every_image() -> None:
    found = list(batches(numbered(9), 4, order=None))
    assert [len(labels) for _, labels in found] == [4, 4, 1]
    assert torch.cat([labels for _, labels in found]).tolist() == list(range(9))
    assert found[1][0].shape == (4, 3, 2, 2)
    assert torch.equal(found[1][0], to_float(numbered(9).images[4:8]))


@pytest.mark.parametrize(("count", "sizes"), [(8, [4, 4]), (10, [4, 4, 2]), (9, [4, 4])])
def test_training_leaves_out_only_a_last_batch_of_one(count: int, sizes: list[int]) -> None:
    found = list(batches(numbered(count), 4, order=seeded(0)))
    assert [len(labels) for _, labels in found] == sizes
    seen = torch.cat([labels for _, labels in found]).tolist()
    assert len(set(seen)) == sum(sizes)


def test_shuffled_images_keep_their_labels() -> None:
    for images, labels in batches(numbered(50), 8, order=seeded(1)):
        assert torch.equal(images, to_float(labels.byte())[:, None, None, None].expand(-1, 3, 2, 2))


def test_the_generator_decides_the_order() -> None:
    split = numbered(64)
    orders = [
        torch.cat([labels for _, labels in batches(split, 8, order=seeded(seed))]).tolist()
        for seed in (0, 0, 1)
    ]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[0] != list(range(64))
