"""Augmentation against one image at a time, by other libraries, and the batches of an epoch."""

import numpy as np
import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as reference

from cemlib.config.data import AugmentConfig
from cemlib.data.augment import Augment, crop, rotate
from cemlib.data.batches import Batches
from cemlib.data.prepared import Split, to_float, unit

PUBLISHED = AugmentConfig(crop_padding=4, flip=True, rotation=15.0)


def augmented(
    config: AugmentConfig, images: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    augment = Augment(config)
    return augment(images, augment.draw(len(images), generator))


def batch(count: int = 6, channels: int = 3, height: int = 32, width: int = 32) -> torch.Tensor:
    return torch.rand(count, channels, height, width, generator=seeded(3))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_crop_equals_slicing_bit_by_bit() -> None:
    images = batch(81, 1, 12, 10)
    offsets = torch.cartesian_prod(torch.arange(9), torch.arange(9))
    found = crop(images, 4, offsets)
    for image, result, (top, left) in zip(images, found, offsets.tolist(), strict=True):
        padded = np.pad(image.numpy(), ((0, 0), (4, 4), (4, 4)))
        assert np.array_equal(result.numpy(), padded[:, top : top + 12, left : left + 10])


@pytest.mark.parametrize("shape", [(32, 32), (17, 17), (24, 40)])
def test_rotation_equals_torchvisions_one_by_one(shape: tuple[int, int]) -> None:
    images = batch(6, 3, *shape)
    degrees = torch.tensor([0.0, 15.0, -15.0, 7.3, 90.0, -120.0])
    for image, result, angle in zip(images, rotate(images, degrees), degrees, strict=True):
        expected = reference.rotate(image, float(angle), InterpolationMode.BILINEAR)
        assert (result - expected).abs().max() < 2e-5


def test_the_whole_protocol_equals_torchvisions_steps_with_the_same_draws() -> None:
    images = batch(32)
    kept = images.clone()
    found = augmented(PUBLISHED, images, seeded(5))
    assert torch.equal(images, kept)
    draws = seeded(5)
    tops, lefts = torch.randint(9, (2, 32), generator=draws).tolist()
    flips = (torch.rand(32, generator=draws) < 0.5).tolist()
    angles = (15 * (2 * torch.rand(32, generator=draws) - 1)).tolist()
    drawn = zip(images, found, tops, lefts, flips, angles, strict=True)
    for image, result, top, left, flip, angle in drawn:
        expected = reference.crop(reference.pad(image, 4), top, left, 32, 32)
        expected = reference.hflip(expected) if flip else expected
        expected = reference.rotate(expected, angle, InterpolationMode.BILINEAR)
        assert (result - expected).abs().max() < 2e-5


def test_nothing_configured_changes_nothing() -> None:
    images = batch()
    generator = seeded()
    before = generator.get_state()
    assert torch.equal(augmented(AugmentConfig(), images, generator), images)
    assert torch.equal(generator.get_state(), before)


def test_bytes_are_changed_as_fractions_are() -> None:
    images = torch.randint(256, (6, 3, 32, 32), dtype=torch.uint8)
    found = augmented(PUBLISHED, images, seeded())
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-6
    assert torch.equal(found, augmented(PUBLISHED, images.float() / 255, seeded()))


def numbered(count: int, side: int = 2) -> Split:
    images = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, side, side)
    return Split(images.contiguous(), torch.arange(count))


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
