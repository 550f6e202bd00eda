"""The bundled digits against scikit-learn and Pillow."""

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from cemlib.config.data import DataConfig
from cemlib.data.digits import digits


def test_all_digits_are_there_in_their_order() -> None:
    raw, bundle = digits(DataConfig(image_size=8), None), load_digits()
    assert raw.classes == tuple("0123456789")
    assert raw.test is None
    assert np.array_equal(raw.train.labels.numpy(), bundle.target)
    expected = np.round(bundle.images * 255 / 16)
    assert np.array_equal(raw.train.images[:, 0].numpy(), expected)


@pytest.mark.parametrize("size", [12, 16, 32])
def test_enlarging_equals_pillows_bicubic(size: int) -> None:
    raw, bundle = digits(DataConfig(image_size=size), None), load_digits()
    for index in range(0, 1797, 100):
        ink = Image.fromarray((bundle.images[index] * 255 / 16).astype(np.float32))
        large = np.asarray(ink.resize((size, size), Image.Resampling.BICUBIC))
        difference = raw.train.images[index, 0].numpy() - large.clip(0, 255)
        assert abs(difference).max() <= 0.51


def test_three_channels_are_three_times_the_same() -> None:
    grey = digits(DataConfig(image_size=16), None).train.images
    colour = digits(DataConfig(image_size=16, channels=3), None).train.images
    assert torch.equal(colour, torch.cat([grey] * 3, 1))
