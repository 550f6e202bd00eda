"""Prepared data on disk: round trip; `faults/test_damaged_results.py` damages it."""

import json
from pathlib import Path

import pytest
import torch

from cemlib.config.data import DataConfig
from cemlib.data.prepare import prepare
from cemlib.data.prepared import Prepared, load, save
from cemlib.records.files import load_tensors, sha256


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
