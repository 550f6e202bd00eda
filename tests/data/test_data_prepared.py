"""Prepared data on disk: round trip, and damage that must not pass."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cemlib.config.data import DataConfig
from cemlib.data.errors import DataError
from cemlib.data.prepare import prepare
from cemlib.data.prepared import Prepared, load, save
from cemlib.records.files import load_tensors, save_tensors, sha256
from cemlib.records.seal import write_sealed


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
    assert facts["sha256"] == sha256(saved / "prepared.safetensors")
    assert facts["duplicates_train_test"] == 0
    assert load_tensors(saved / "prepared.safetensors")["train_images"].shape == (180, 1, 8, 8)


def test_the_same_data_give_the_same_bytes(prepared: Prepared, saved: Path, tmp_path: Path) -> None:
    save(prepared, tmp_path / "again")
    for name in ("prepared.safetensors", "data.json"):
        assert (saved / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_nothing_else_is_left_behind(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == ["data.json", "prepared.safetensors"]


def test_moving_keeps_everything(prepared: Prepared) -> None:
    moved = prepared.to("meta")
    assert {part.images.device.type for part in moved.parts().values()} == {"meta"}
    assert moved.mean == prepared.mean


@pytest.mark.parametrize("name", ["prepared.safetensors", "data.json"])
def test_a_missing_file_is_noticed(saved: Path, name: str) -> None:
    """Damaged ones are `faults/test_damaged_results.py`'s."""
    (saved / name).unlink()
    with pytest.raises(DataError, match=f"{name}: no such file"):
        load(saved)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the description, and write it as one that fits its checksum."""
    facts = json.loads((folder / "data.json").read_text())
    change(facts)
    write_sealed(folder / "data.json", facts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f["counts"].update(train=179), "train images are"),
        (lambda f: f["counts"].pop("val"), "val images are"),
        (lambda f: f.update(image_shape=[3, 8, 8]), "image"),
        (lambda f: f.update(classes=["0"]), "labels from 0 to 9 for 1 classes"),
        (lambda f: f.pop("mean"), "mean"),
        (lambda f: f.update(std=[None]), "std"),
    ],
)
def test_a_description_that_does_not_fit_is_noticed(
    saved: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    rewrite(saved, change)
    with pytest.raises(DataError, match=message):
        load(saved)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("train_images", torch.zeros(180, 1, 8, 8), "uint8"),
        ("val_labels", torch.zeros(20, dtype=torch.int32), "int64"),
        ("test_labels", torch.full((100,), -1), "labels from -1"),
        ("train_labels", None, r"no tensors \['train_labels'\]"),
    ],
)
def test_tensors_of_a_wrong_kind_are_noticed_behind_a_right_checksum(
    saved: Path, name: str, tensor: torch.Tensor | None, message: str
) -> None:
    path = saved / "prepared.safetensors"
    tensors = load_tensors(path)
    tensors.pop(name)
    save_tensors(path, tensors if tensor is None else tensors | {name: tensor})
    rewrite(saved, lambda facts: facts.update(sha256=sha256(path)))
    with pytest.raises(DataError, match=message):
        load(saved)
