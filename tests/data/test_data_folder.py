"""Image folders: layouts, order, and everything that can be wrong with them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from image_folders import Maker, write_class
from PIL import Image

from cemlib.config.data import DataConfig
from cemlib.data import DataError
from cemlib.data.folder import folder

CONFIG = DataConfig(source="folder", image_size=8)
BOTH = {"train/b": 6, "train/a": 5, "test/a": 2, "test/b": 3}


def pixels(path: Path) -> torch.Tensor:
    return torch.from_numpy(np.asarray(Image.open(path)).transpose(2, 0, 1).copy())


def test_train_and_test_in_the_order_of_names(make_folder: Maker) -> None:
    root = make_folder(BOTH)
    raw = folder(CONFIG, root)
    assert raw.classes == ("a", "b")
    assert raw.train.labels.tolist() == [0] * 5 + [1] * 6
    assert raw.test.labels.tolist() == [0, 0, 1, 1, 1]
    assert torch.equal(raw.train.images[3], pixels(root / "train/a/003.png"))
    assert torch.equal(raw.train.images[5], pixels(root / "train/b/000.png"))
    assert torch.equal(raw.test.images[4], pixels(root / "test/b/002.png"))
    assert str(root) not in repr(raw.provenance)  # no place of this machine


def test_one_folder_has_no_test_split_and_keeps_the_order_of_many(make_folder: Maker) -> None:
    root = make_folder({"b": 5, "a": 150})
    raw = folder(CONFIG, root)
    assert raw.test is None
    assert raw.classes == ("a", "b")
    assert raw.train.labels.tolist() == [0] * 150 + [1] * 5
    for index in (0, 63, 64, 149):
        assert torch.equal(raw.train.images[index], pixels(root / f"a/{index:03}.png"))


def test_all_grey_is_one_channel_and_a_mixture_is_three(make_folder: Maker) -> None:
    root = make_folder({"train/a": 5, "train/b": 5, "test/a": 1, "test/b": 1}, (8, 8))
    grey = folder(CONFIG, root)
    assert grey.train.images.shape[1] == 1
    write_class(root / "test/b", 1, 7, (8, 8, 3))
    mixed = folder(CONFIG, root)
    assert torch.equal(mixed.train.images, grey.train.images.expand(-1, 3, -1, -1))
    assert torch.equal(mixed.test.images[1], pixels(root / "test/b/000.png"))


def refused(root: Path | None, config: DataConfig = CONFIG) -> str:
    with pytest.raises(DataError) as error:
        folder(config, root)
    return str(error.value)


def test_no_place_at_all(tmp_path: Path) -> None:
    assert "CEMLIB_DATA" in refused(None)
    (tmp_path / "a.tar").write_bytes(b"")
    for name in ("nowhere", "a.tar"):
        assert f"{tmp_path / name}: no such folder" in refused(tmp_path / name)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({}, "{}: expected a folder for each of two or more classes, found none"),
        ({"only": 6}, "{}: expected a folder for each of two or more classes, found only"),
        (BOTH | {"train/a": 1}, "{}/train/a: 1 images in this class, 5 or more are needed"),
        (BOTH | {"train/c": 5, "test/d": 5}, "only in train: ['c'], only in test: ['d']"),
        ({"train/a": 5, "train/b": 5}, "or set data.root to {}/train"),
        ({"set/train/a": 5, "other/train/a": 5}, "set data.root to {}/other"),
        (BOTH | {"train/a/more": 3}, "{}/train/a/more: a folder inside a class folder"),
    ],
)
def test_another_layout_is_named(
    make_folder: Maker, tmp_path: Path, counts: dict[str, int], message: str
) -> None:
    (tmp_path / "images").mkdir()
    root = make_folder(counts)
    assert message.format(root) in refused(root)


def test_a_missing_class_is_named_beside_a_stray_file(make_folder: Maker) -> None:
    """Of all classes, also where only the first are kept."""
    root = make_folder(
        {f"train/{name}": 6 for name in "abcd"} | {f"test/{name}": 6 for name in "bcd"}
    )
    (root / "train/README.txt").write_text("about the images")
    config = DataConfig(source="folder", root=str(root), image_size=8, classes=2)
    with pytest.raises(DataError, match=r"only in train: \['a'\], only in test: \[\]"):
        folder(config, root)


def test_files_of_an_unknown_kind_are_counted_and_named(make_folder: Maker) -> None:
    root = make_folder(BOTH)
    for number in range(7):
        (root / f"train/b/photo{number}.heic").write_bytes(b"")
    message = refused(root)
    assert f"{root / 'train/b'}: 7 files of an unknown kind, such as photo0.heic" in message
    assert "photo6" not in message
    assert ".png" in message


def test_many_damaged_images_are_counted(make_folder: Maker) -> None:
    root = make_folder({"a": 80, "b": 5})
    for index in range(10, 80, 10):
        (root / f"a/{index:03}.png").write_bytes(b"")
    message = refused(root)
    assert message.startswith("7 damaged images:")
    assert str(root / "a/010.png") in message
    assert str(root / "a/060.png") not in message
    assert message.endswith("and 2 more")
