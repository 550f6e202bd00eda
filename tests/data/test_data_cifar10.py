"""The real CIFAR-10, where the environment variable CEMLIB_DATA names an image folder of it."""

import os
from pathlib import Path

import numpy as np
import pytest

from cemlib.config.data import DataConfig
from cemlib.data.prepare import prepare

PLACE = Path(os.environ.get("CEMLIB_DATA") or "nowhere")

pytestmark = pytest.mark.skipif(
    not (PLACE / "train" / "airplane").is_dir() or not (PLACE / "test").is_dir(),
    reason="CEMLIB_DATA names no image folder of CIFAR-10",
)


def test_the_published_counts_and_statistics() -> None:
    prepared = prepare(DataConfig(source="cifar10"))
    assert prepared.train.labels.bincount().tolist() == [4500] * 10
    assert prepared.val.labels.bincount().tolist() == [500] * 10
    assert prepared.test.labels.bincount().tolist() == [1000] * 10
    assert prepared.image_shape == (3, 32, 32)
    np.testing.assert_allclose(prepared.mean, (0.4914, 0.4822, 0.4465), atol=1e-3)
    np.testing.assert_allclose(prepared.std, (0.2470, 0.2435, 0.2616), atol=1e-3)
    assert prepared.duplicates_train_test == 0
