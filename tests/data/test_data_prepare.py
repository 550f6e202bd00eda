"""Splits, limits, statistics and checks on the way to prepared data."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from image_folders import Maker
from PIL import Image
from torch import Tensor

from cemlib.config.data import DataConfig
from cemlib.data.prepare import (
    allocate,
    prepare,
    resolve_root,
    stratified,
)
from cemlib.data.prepared import Split
from cemlib.data.raw import DataError, Raw

DIGITS = DataConfig(image_size=8)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12).filter(any), st.data())
def test_shares_are_those_of_the_largest_remainder(counts: list[int], data: st.DataObject) -> None:
    total = data.draw(st.integers(0, sum(counts)))
    exact = [Fraction(count * total, sum(counts)) for count in counts]
    expected = [int(share) for share in exact]
    by_remainder = sorted(range(len(counts)), key=lambda c: (int(exact[c]) - exact[c], c))
    for c in by_remainder[: total - sum(expected)]:
        expected[c] += 1
    found = allocate(torch.tensor(counts), total)
    assert found.tolist() == expected
    assert (found <= torch.tensor(counts)).all()


def test_stratified_draws_every_member_alike() -> None:
    labels = torch.tensor([0, 1]).repeat(10)
    hits = torch.zeros(20)
    for seed in range(2000):
        chosen, rest = stratified(labels, 4, torch.Generator().manual_seed(seed))
        hits[chosen] += 1
    assert torch.cat([chosen, rest]).sort().values.tolist() == list(range(20))
    assert abs(hits / 2000 - 0.2).max() < 0.045  # five standard deviations of a frequency


def test_digits_are_split_in_proportion_and_without_overlap() -> None:
    prepared = prepare(DIGITS)
    assert {name: len(part) for name, part in prepared.parts().items()} == {
        "train": 1213,
        "val": 135,
        "test": 449,
    }
    together = torch.cat([prepared.indices[name] for name in ("train", "val", "test")])
    assert together.sort().values.tolist() == list(range(1797))
    whole = np.bincount(np.concatenate([p.labels.numpy() for p in prepared.parts().values()]))
    for part in prepared.parts().values():
        share = np.bincount(part.labels.numpy()) / len(part)
        assert abs(share - whole / 1797).max() < 1.6 / len(part)


def test_the_split_seed_alone_decides() -> None:
    first, again = prepare(DIGITS), prepare(DIGITS)
    other = prepare(DIGITS.model_copy(update={"split_seed": 1}))
    for name in ("train", "val", "test"):
        assert torch.equal(first.indices[name], again.indices[name])
        assert set(first.indices[name].tolist()) != set(other.indices[name].tolist())


def test_a_train_limit_does_not_change_the_test_images() -> None:
    limited = prepare(DIGITS.model_copy(update={"train_limit": 500}))
    assert len(limited.train) + len(limited.val) == 500
    assert len(limited.val) == 50
    whole = prepare(DIGITS)
    assert torch.equal(limited.test.images, whole.test.images)
    generous = prepare(DIGITS.model_copy(update={"train_limit": 9999, "test_limit": 9999}))
    assert torch.equal(generous.train.images, whole.train.images)


def test_limits_keep_the_share_of_every_class(make_folder: Maker) -> None:
    root = make_folder({"train/a": 40, "train/b": 20, "test/a": 8, "test/b": 4})
    limits = {"train_limit": 30, "test_limit": 6}
    prepared = prepare(DataConfig(source="folder", root=str(root), image_size=8, **limits))
    assert prepared.train.labels.bincount().tolist() == [18, 9]
    assert prepared.val.labels.bincount().tolist() == [2, 1]
    assert prepared.test.labels.bincount().tolist() == [4, 2]


@pytest.mark.parametrize("layout", ["train and test", "one folder"])
def test_only_the_first_classes_are_kept(make_folder: Maker, layout: str) -> None:
    places = {"train": 20, "test": 8} if layout == "train and test" else {"": 28}
    root = make_folder({f"{p}/{name}".strip("/"): n for p, n in places.items() for name in "abcd"})
    config = DataConfig(source="folder", root=str(root), image_size=8)
    whole, few = prepare(config), prepare(config.model_copy(update={"classes": 2}))
    assert few.classes == ("a", "b")
    for name, part in few.parts().items():
        assert part.labels.bincount().tolist() == [len(part) // 2] * 2
        assert len(part) == len(whole.parts()[name]) // 2
    assert set(few.indices["test"].tolist()) <= set(range(56))
    with pytest.raises(DataError, match=r"data\.classes is 5, and there are 4 classes"):
        prepare(config.model_copy(update={"classes": 5}))
    for damaged in root.rglob("d/*.png"):  # a class that is left out is not read
        damaged.write_bytes(b"")
    assert prepare(config.model_copy(update={"classes": 3})).classes == ("a", "b", "c")


@pytest.mark.parametrize("layout", ["train and test", "one folder"])
def test_no_split_of_a_folder_is_in_the_order_of_classes(make_folder: Maker, layout: str) -> None:
    places = ("train", "test") if layout == "train and test" else ("",)
    root = make_folder({f"{place}/{name}".strip("/"): 40 for place in places for name in "abcd"})
    prepared = prepare(DataConfig(source="folder", root=str(root), image_size=8))
    for part in prepared.parts().values():
        assert len(set(part.labels[: len(part) // 2].tolist())) == 4


def test_images_keep_their_labels(make_folder: Maker) -> None:
    root = make_folder({"train/a": 20, "train/b": 30, "test/a": 6, "test/b": 8})
    prepared = prepare(DataConfig(source="folder", root=str(root), image_size=8))
    for part in prepared.parts().values():
        for image, label in zip(part.images, part.labels, strict=True):
            files = [*root.glob(f"*/{prepared.classes[label]}/*.png")]
            pixels = [np.asarray(Image.open(file)).transpose(2, 0, 1) for file in files]
            assert any(np.array_equal(image.numpy(), one) for one in pixels)


def test_statistics_are_of_the_training_images_alone(make_folder: Maker) -> None:
    root = make_folder({"train/a": 20, "train/b": 20, "test/a": 2, "test/b": 2})
    for file in root.glob("train/a/*.png"):
        Image.fromarray(np.asarray(Image.open(file)) // np.array([1, 4, 2], np.uint8)).save(file)
    prepared = prepare(DataConfig(source="folder", root=str(root), image_size=8))
    scaled = prepared.train.images.numpy().astype(np.float64) / 255
    np.testing.assert_allclose(prepared.mean, scaled.mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(prepared.std, scaled.std((0, 2, 3)), rtol=1e-12)


def test_too_few_training_images_after_the_splits(make_folder: Maker) -> None:
    root = make_folder({"cat": 6, "dog": 40})
    config = DataConfig(source="folder", root=str(root), image_size=8)
    with pytest.raises(DataError, match=r"too few training images.*5 per class.*\{'cat': 4\}"):
        prepare(config)
    assert len(prepare(config.model_copy(update={"min_per_class": 4})).classes) == 2


def test_a_test_limit_that_loses_classes_is_refused() -> None:
    with pytest.raises(DataError, match="too few test images"):
        prepare(DIGITS.model_copy(update={"test_limit": 5}))


def test_the_configured_root_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEMLIB_DATA", "from_variable")
    assert resolve_root(DataConfig(root="from_config")) == Path("from_config")
    assert resolve_root(DataConfig()) == Path("from_variable")
    monkeypatch.setenv("CEMLIB_DATA", "")
    assert resolve_root(DataConfig()) is None
    assert resolve_root(DataConfig(root="~")) == Path.home()


def test_an_impossible_path_is_an_error_of_the_data() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        prepare(DataConfig(source="folder", root="x" * 300))
    with pytest.raises(DataError, match=r"^digits: too few"):  # which are in no folder
        prepare(DataConfig(source="digits", root="elsewhere", train_limit=20))


GOOD = Split(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]))


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (torch.zeros(4, 1, 8, 8), GOOD.labels, "uint8"),
        (torch.zeros(4, 2, 8, 8, dtype=torch.uint8), GOOD.labels, "1 or 3"),
        (
            GOOD.images.permute(0, 2, 3, 1),
            GOOD.labels,
            r"permute\(0, 3, 1, 2\) \(tensor\) or transpose",
        ),
        (GOOD.images, GOOD.labels[:3], r"4 images need int64 labels \(4,\)"),
        (GOOD.images, GOOD.labels.int(), "int64"),
        (GOOD.images, torch.tensor([0, 1, 2, 1]), "from 0 to 2 for 2 classes"),
        (GOOD.images[:0], GOOD.labels[:0], "no images"),
    ],
)
def test_a_source_cannot_deliver_nonsense(images: Tensor, labels: Tensor, message: str) -> None:
    bad = Split(images, labels)
    with pytest.raises(DataError, match=f"train: .*{message}"):
        Raw(bad, None, ("a", "b"))
    with pytest.raises(DataError, match=f"test: .*{message}"):
        Raw(GOOD, bad, ("a", "b"))
