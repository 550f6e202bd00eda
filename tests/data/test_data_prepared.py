"""Digits, tensors in memory, and prepared data on disk (`faults/test_damaged_results.py`)."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset

from cemlib.config.data import DataConfig
from cemlib.data import DataError
from cemlib.data.digits import digits
from cemlib.data.prepare import prepare
from cemlib.data.prepared import Prepared, load, save
from cemlib.data.tensors import from_tensors
from cemlib.records.files import load_tensors, sha256


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


def test_a_sources_images_give_the_sources_splits() -> None:
    config = DataConfig(source="digits", image_size=8, train_limit=300, split_seed=3)
    raw, expected = digits(config, None), prepare(config)
    found = from_tensors(raw.train.images, raw.train.labels, config=config)
    for name, part in expected.parts().items():
        assert torch.equal(found.parts()[name].images, part.images)
        assert torch.equal(found.parts()[name].labels, part.labels)
    assert (found.mean, found.std, found.classes) == (expected.mean, expected.std, expected.classes)


def test_a_test_set_of_ones_own_stays_whole() -> None:
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(256, (60, 3, 8, 8), dtype=torch.uint8, generator=draws)
    labels = torch.arange(60) % 3
    data = from_tensors(images[:45], labels[:45], images[45:], labels[45:], classes="abc")
    assert data.classes == ("a", "b", "c")
    assert sorted(data.test.images.sum((1, 2, 3)).tolist()) == sorted(
        images[45:].sum((1, 2, 3)).tolist()
    )


def test_the_test_images_may_have_the_highest_class_alone() -> None:
    images = torch.rand(20, 1, 8, 8)
    test = images[:4], torch.tensor([0, 1, 2, 3])
    data = from_tensors(images, torch.arange(20) % 3, *test, every_class=False)
    assert data.classes == ("0", "1", "2", "3")


def test_no_images_are_refused() -> None:
    with pytest.raises(DataError, match="labels: there are none"):
        from_tensors(torch.zeros(0, 3, 8, 8, dtype=torch.uint8), torch.zeros(0, dtype=torch.long))
    with pytest.raises(DataError, match="images: empty; give at least one image"):
        from_tensors(TensorDataset(torch.zeros(0, 3, 8, 8), torch.zeros(0).long()))
    with pytest.raises(DataError, match="no image is left to train on"):
        from_tensors(torch.rand(2, 3, 8, 8), torch.tensor([0, 1]), every_class=False)


def test_a_single_label_for_all_images_is_refused() -> None:
    with pytest.raises(DataError, match="labels"):
        from_tensors(torch.rand(4, 3, 8, 8), torch.tensor(1))


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(DataConfig(image_size=8, train_limit=200, test_limit=100))


@pytest.fixture
def saved(prepared: Prepared, tmp_path: Path) -> Path:
    save(prepared, tmp_path)
    return tmp_path


def test_round_trip(prepared: Prepared, saved: Path) -> None:
    again = load(saved)
    for name, part in prepared.parts().items():
        assert torch.equal(again.parts()[name].images, part.images)
        assert torch.equal(again.parts()[name].labels, part.labels)
        assert torch.equal(again.indices[name], prepared.indices[name])
    for name in ("mean", "std", "classes", "image_shape", "provenance", "duplicates_train_test"):
        assert getattr(again, name) == getattr(prepared, name)


def test_the_files_say_what_they_hold(saved: Path) -> None:
    facts = json.loads((saved / "data.json").read_text())
    assert facts["counts"] == {"train": 180, "val": 20, "test": 100}
    assert facts["image_shape"] == [1, 8, 8]
    assert facts["classes"] == list("0123456789")
    assert facts["files"]["prepared.safetensors"] == sha256(saved / "prepared.safetensors")
    assert facts["duplicates_train_test"] == 0
    assert load_tensors(saved / "prepared.safetensors")["train_images"].shape == (180, 1, 8, 8)
