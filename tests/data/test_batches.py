"""Batches cover a split once, in float, in the order asked for."""

import numpy as np
import pytest
import torch

from cemlib.config.data import AugmentConfig
from cemlib.data.augment import Augment
from cemlib.data.batches import Batches
from cemlib.data.prepared import Split, to_float, unit

PUBLISHED = AugmentConfig(crop_padding=4, flip=True, rotation=15.0)


def numbered(count: int, side: int = 2) -> Split:
    images = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, side, side)
    return Split(images.contiguous(), torch.arange(count))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def epoch(
    split: Split, size: int, seed: int = 0, augment: AugmentConfig | None = None
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    batches = Batches(split, size, Augment(augment or AugmentConfig()))
    batches.begin(seeded(seed), seeded(seed + 100))
    return [batches.take(size) for size in batches.sizes]


def test_every_value_becomes_a_fraction_of_255() -> None:
    values = torch.arange(256, dtype=torch.uint8)
    found = to_float(values)
    assert found.dtype == torch.float32
    assert np.array_equal(found.numpy(), np.arange(256, dtype=np.float32) / np.float32(255))
    assert torch.equal(unit(values), found)
    assert unit(found) is found


@pytest.mark.parametrize(("count", "sizes"), [(8, [4, 4]), (10, [4, 4, 2]), (9, [4, 4]), (3, [3])])
def test_an_epoch_leaves_out_only_a_last_batch_of_one(count: int, sizes: list[int]) -> None:
    found = epoch(numbered(count), 4)
    assert [len(labels) for _, labels in found] == sizes
    seen = torch.cat([labels for _, labels in found]).tolist()
    assert len(set(seen)) == sum(sizes)


def test_an_epoch_begun_again_is_the_same_and_another_is_not() -> None:
    batches = Batches(numbered(20, side=16), 8, Augment(PUBLISHED))
    epochs = []
    for seed in (3, 3, 4):
        batches.begin(seeded(seed), seeded(seed))
        epochs.append(torch.cat([batches.take(size)[0] for size in batches.sizes]))
    assert torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0], epochs[2])


def test_each_batch_is_augmented_as_it_would_be_alone() -> None:
    split = Split(torch.randint(256, (20, 3, 16, 16), dtype=torch.uint8), torch.arange(20))
    draws = seeded(100)
    for images, labels in epoch(split, 8, augment=PUBLISHED):
        alone = Augment(PUBLISHED)
        expected = alone(split.images[labels], alone.draw(len(labels), draws))
        assert torch.equal(images, expected)
