"""Published sets in torchvision's own files, as image folders, and when the network is missing."""

import hashlib
import os
import struct
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from image_folders import Maker
from scipy.io import savemat
from torchvision.datasets import SVHN

from cemlib.config.data import DataConfig
from cemlib.data import SOURCES, DataError
from cemlib.data.prepare import prepare

RNG = np.random.default_rng(1)


def write_idx(folder: Path, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The format of the MNIST files: magic number, sizes, bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    images = RNG.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labels = np.resize(np.arange(10, dtype=np.uint8), count)
    header = struct.pack(">IIII", 0x803, count, 28, 28)
    (folder / f"{name}-images-idx3-ubyte").write_bytes(header + images.tobytes())
    header = struct.pack(">II", 0x801, count)
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())
    return images, labels


@pytest.mark.parametrize(
    ("source", "name"), [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")]
)
def test_torchvisions_files_are_read(tmp_path: Path, source: str, name: str) -> None:
    """The order is random, because MNIST's two halves of test images have different writers."""
    raw_folder = tmp_path / name / "raw"
    write_idx(raw_folder, "train", 100)
    images, labels = write_idx(raw_folder, "t10k", 40)
    config = DataConfig(source=source, root=str(tmp_path), image_size=28)
    prepared = prepare(config)
    order = prepared.indices["test"]
    assert not torch.equal(order, order.sort().values)
    assert np.array_equal(prepared.test.images[:, 0].numpy(), images[order])
    assert np.array_equal(prepared.test.labels.numpy(), labels[order])
    assert (len(prepared.train), len(prepared.val)) == (90, 10)
    together = torch.cat([prepared.indices["train"], prepared.indices["val"]])
    assert together.sort().values.tolist() == list(range(100))
    assert len(prepared.classes) == 10
    assert prepared.provenance["set"] == source


def test_svhns_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their arrays are (height, width, colour, image), and the digit 0 has the label 10."""
    written, sums, digits = [], {}, np.arange(20) % 10
    for part in ("train", "test"):
        pixels = RNG.integers(0, 256, (32, 32, 3, 20), dtype=np.uint8)
        path = tmp_path / f"{part}_32x32.mat"
        savemat(path, {"X": pixels, "y": np.where(digits == 0, 10, digits)[:, None]})
        sums[part] = ["", path.name, hashlib.md5(path.read_bytes()).hexdigest()]
        written.append(pixels)
    monkeypatch.setattr(SVHN, "split_list", sums)
    raw = SOURCES["svhn"](DataConfig(source="svhn", image_size=32), tmp_path)
    for split, pixels in zip((raw.train, raw.test), written, strict=True):
        np.testing.assert_array_equal(split.images, pixels.transpose(3, 2, 0, 1))
        assert split.labels.tolist() == digits.tolist()


def test_a_limit_keeps_the_share_of_every_class(tmp_path: Path) -> None:
    write_idx(tmp_path / "MNIST/raw", "train", 100)
    images, _ = write_idx(tmp_path / "MNIST/raw", "t10k", 40)
    config = DataConfig(source="mnist", root=str(tmp_path), image_size=28, test_limit=20)
    prepared = prepare(config)
    kept = prepared.indices["test"]
    assert np.array_equal(prepared.test.images[:, 0].numpy(), images[kept.numpy()])
    assert prepared.test.labels.bincount().tolist() == [2] * 10


def test_an_image_folder_of_the_set_is_read_instead(make_folder: Maker) -> None:
    counts = {f"{part}/class{k}": n for part, n in (("train", 6), ("test", 2)) for k in range(10)}
    root = make_folder(counts)
    prepared = prepare(DataConfig(source="cifar10", root=str(root), image_size=8))
    assert prepared.provenance["set"] == "cifar10"
    assert prepared.provenance["kind"] == "image folder"
    assert len(prepared.test) == 20


def test_an_image_folder_of_another_set_is_refused(make_folder: Maker) -> None:
    root = make_folder({"train/a": 5, "train/b": 5, "test/a": 5, "test/b": 5})
    with pytest.raises(DataError, match="cifar100 has 100 classes, found 2 folders"):
        prepare(DataConfig(source="cifar100", root=str(root), image_size=8))


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("source", ["cifar10", "cifar100", "mnist", "fashion_mnist", "svhn"])
def test_without_a_network_the_error_says_what_to_do(tmp_path: Path, source: str) -> None:
    config = DataConfig(source=source, root=str(tmp_path))
    with pytest.raises(DataError, match=f"{source} is not there and could not be downloaded") as e:
        SOURCES[source](config, tmp_path)
    assert "CEMLIB_DATA" in str(e.value)
    assert str(tmp_path) in str(e.value)


def test_every_source_of_the_schema_exists_and_no_other() -> None:
    assert get_args(DataConfig.model_fields["source"].annotation) == tuple(SOURCES)


CIFAR10 = Path(os.environ.get("CEMLIB_DATA") or "nowhere")


@pytest.mark.skipif(
    not (CIFAR10 / "train" / "airplane").is_dir() or not (CIFAR10 / "test").is_dir(),
    reason="CEMLIB_DATA names no image folder of CIFAR-10",
)
def test_the_real_cifar10_has_the_published_counts_and_statistics() -> None:
    prepared = prepare(DataConfig(source="cifar10"))
    assert prepared.train.labels.bincount().tolist() == [4500] * 10
    assert prepared.val.labels.bincount().tolist() == [500] * 10
    assert prepared.test.labels.bincount().tolist() == [1000] * 10
    assert prepared.image_shape == (3, 32, 32)
    np.testing.assert_allclose(prepared.mean, (0.4914, 0.4822, 0.4465), atol=1e-3)
    np.testing.assert_allclose(prepared.std, (0.2470, 0.2435, 0.2616), atol=1e-3)
    assert prepared.duplicates_train_test == 0
