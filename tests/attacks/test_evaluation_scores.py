"""Scores that are no numbers; which images the pictures show, and how they are drawn."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cemlib.evaluation.pictures import showcase, write_strip
from cemlib.evaluation.scores import MEASURES, means, per_image


def test_what_is_no_number_is_null() -> None:
    x = torch.rand(5, 3, 16, 16)
    perfect = means(per_image(x, x))
    assert perfect["mse"] == 0
    assert perfect["psnr"] is None
    assert perfect["psnr_of_mean_mse"] is None
    assert perfect["ssim"] == pytest.approx(1)
    none = means(per_image(x[:0], x[:0]))
    assert set(none) == {*MEASURES, "psnr_of_mean_mse"}
    assert set(none.values()) == {None}


@pytest.mark.parametrize(
    ("labels", "first", "shown"),
    [
        ([2, 0, 1, 0, 2, 1], 0, [1, 2, 0]),
        ([2, 0, 1, 0, 2, 1], 2, [3, 2, 4]),
        ([0, 1, 1, 1], 1, [1]),
        ([*range(20, 0, -1), *range(20)], 20, list(range(20, 30))),
    ],
)
def test_the_first_image_of_each_class_is_shown(
    labels: list[int], first: int, shown: list[int]
) -> None:
    assert showcase(torch.tensor(labels), first) == shown


@pytest.mark.parametrize(("channels", "side"), [(1, 16), (3, 16), (3, 32), (3, 96), (1, 24)])
def test_a_strip_is_two_rows_of_enlarged_images(tmp_path: Path, channels: int, side: int) -> None:
    draws = torch.Generator().manual_seed(0)
    stored = torch.randint(256, (2, 4, channels, side, side), generator=draws)
    write_strip(tmp_path / "strip.png", *(stored.float() / 255))
    with Image.open(tmp_path / "strip.png") as image:
        assert image.mode == ("L" if channels == 1 else "RGB")
        pixels = np.asarray(image).reshape(image.height, image.width, channels)
    drawn = pixels.shape[1] // 4
    factor = max(1, 64 // side)
    assert pixels.shape == (2 * factor * side, 4 * factor * side, channels)
    for row in range(2):
        for column in range(4):
            box = pixels[row * drawn : (row + 1) * drawn, column * drawn : (column + 1) * drawn]
            for offset in range(factor):
                found = box[offset::factor, offset::factor].transpose(2, 0, 1)
                assert (found == stored[row, column].numpy()).all()


def test_a_strip_clips_what_is_outside_the_unit_interval(tmp_path: Path) -> None:
    images = torch.stack([torch.full((1, 16, 16), -3.0), torch.full((1, 16, 16), 1.7)])
    write_strip(tmp_path / "strip.png", images, images)
    with Image.open(tmp_path / "strip.png") as image:
        assert set(np.asarray(image)[:, :64].flat) == {0}
        assert set(np.asarray(image)[:, 64:].flat) == {255}
