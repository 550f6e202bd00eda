"""Batched augmentation against one image at a time, by other libraries."""

import numpy as np
import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as reference

from cemlib.config.data import AugmentConfig
from cemlib.data.augment import Augment, crop, mirror, rotate

PUBLISHED = AugmentConfig(crop_padding=4, flip=True, rotation=15.0)


def augmented(
    config: AugmentConfig, images: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    augment = Augment(config)
    return augment(images, augment.draw(len(images), generator))


def batch(count: int = 6, channels: int = 3, height: int = 32, width: int = 32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(count, channels, height, width, generator=generator)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_crop_equals_slicing_bit_by_bit() -> None:
    images = batch(81, 1, 12, 10)
    offsets = torch.cartesian_prod(torch.arange(9), torch.arange(9))
    found = crop(images, 4, offsets)
    for image, result, (top, left) in zip(images, found, offsets.tolist(), strict=True):
        padded = np.pad(image.numpy(), ((0, 0), (4, 4), (4, 4)))
        assert np.array_equal(result.numpy(), padded[:, top : top + 12, left : left + 10])


def test_mirror_swaps_columns_of_the_chosen() -> None:
    images = batch(4, 2, 5, 7)
    found = mirror(images, torch.tensor([True, False, False, True]))
    assert np.array_equal(found[0].numpy(), images[0].numpy()[..., ::-1])
    assert torch.equal(found[1:3], images[1:3])
    assert np.array_equal(found[3].numpy(), images[3].numpy()[..., ::-1])


@pytest.mark.parametrize("shape", [(32, 32), (17, 17), (24, 40)])
def test_rotation_equals_torchvisions_one_by_one(shape: tuple[int, int]) -> None:
    images = batch(6, 3, *shape)
    degrees = torch.tensor([0.0, 15.0, -15.0, 7.3, 90.0, -120.0])
    for image, result, angle in zip(images, rotate(images, degrees), degrees, strict=True):
        expected = reference.rotate(image, float(angle), InterpolationMode.BILINEAR)
        assert (result - expected).abs().max() < 2e-5


def test_a_quarter_turn_moves_whole_pixels_counter_clockwise() -> None:
    images = batch(1, 1, 8, 8)
    found = rotate(images, torch.tensor([90.0]))
    np.testing.assert_allclose(found[0, 0], np.rot90(images[0, 0].numpy()), atol=1e-5)


def test_the_whole_protocol_equals_torchvisions_steps_with_the_same_draws() -> None:
    images = batch(32)
    found = augmented(PUBLISHED, images, seeded(5))
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


def test_draws_cover_their_range_evenly() -> None:
    spot = torch.zeros(4000, 1, 9, 9)
    spot[:, :, 4, 4] = 1
    found = augmented(AugmentConfig(crop_padding=1), spot, seeded())
    share = found.mean(0)[0, 3:6, 3:6]
    assert abs(share - 1 / 9).max() < 0.025  # five standard deviations
    assert found.sum() == 4000
    corner = torch.zeros(4000, 1, 2, 2)
    corner[:, :, 0, 0] = 1
    flipped = augmented(AugmentConfig(flip=True), corner, seeded())[:, 0, 0, 1].mean()
    assert abs(flipped - 0.5) < 0.04


def test_rotation_stays_within_its_bounds() -> None:
    ramp = torch.linspace(-1, 1, 33).expand(2000, 1, 33, 33)
    found = augmented(AugmentConfig(rotation=15.0), ramp, seeded())
    # Along the middle column a turned ramp rises by the sine of the angle.
    sines = (found[:, 0, 24, 16] - found[:, 0, 8, 16]) / (ramp[0, 0, 0, 24] - ramp[0, 0, 0, 8])
    degrees = torch.rad2deg(torch.asin(sines))
    assert degrees.abs().max() <= 15.01
    assert degrees.min() < -14.8
    assert degrees.max() > 14.8
    assert abs(degrees.mean()) < 1


def test_nothing_configured_changes_nothing() -> None:
    images = batch()
    generator = seeded()
    before = generator.get_state()
    assert torch.equal(augmented(AugmentConfig(), images, generator), images)
    assert torch.equal(generator.get_state(), before)


def test_the_generator_alone_decides_and_the_input_stays() -> None:
    images = batch()
    kept = images.clone()
    first = augmented(PUBLISHED, images, seeded(1))
    assert torch.equal(first, augmented(PUBLISHED, images, seeded(1)))
    assert not torch.equal(first, augmented(PUBLISHED, images, seeded(2)))
    assert torch.equal(images, kept)


def test_bytes_are_changed_as_fractions_are() -> None:
    images = torch.randint(256, (6, 3, 32, 32), dtype=torch.uint8)
    found = augmented(PUBLISHED, images, seeded())
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-6
    assert torch.equal(found, augmented(PUBLISHED, images.float() / 255, seeded()))
