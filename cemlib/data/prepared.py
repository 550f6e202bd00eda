"""The prepared images of an experiment: split, measured, and kept in one checked file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cemlib.records.files import load_tensors, save_tensors
from cemlib.records.layout import DESCRIPTION, TENSORS
from cemlib.records.seal import FILES, check_files, read_sealed, write_sealed

PARTS = ("train", "val", "test")
FACTS = ("classes", "mean", "std", "source", "duplicates_train_test")


@dataclass(frozen=True)
class Split:
    """Images uint8 (N, C, H, W) and their labels int64 (N,)."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> "Split":
        """Return the split on ``device``; it shares the tensors that are there already."""
        return Split(self.images.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Prepared:
    """All images of an experiment.

    Attributes:
        val: Images held out of the training images, for every selection.
        test: Images for the final scores, and to attack.
        mean: Mean per channel over all pixels of ``train``, on the scale [0, 1].
        std: Standard deviation per channel, likewise.
        classes: Names in the order of the labels.
        provenance: Origin of the images, from the source.
        indices: Positions of each part in the source's training images; those of ``test`` are in
            its test images if it has any.
        duplicates_train_test: Number of test images that equal one in train or val in every pixel.
        sha256: SHA-256 of the file that the images were loaded from; empty if there is none.
    """

    train: Split
    val: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    classes: tuple[str, ...]
    provenance: dict[str, Any] = field(default_factory=dict)
    indices: Mapping[str, Tensor] = field(default_factory=dict)
    duplicates_train_test: int = 0
    sha256: str = ""

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Return (C, H, W) of the images."""
        return image_shape(self.train.images)

    def parts(self) -> dict[str, Split]:
        """Return the three splits by name."""
        return {"train": self.train, "val": self.val, "test": self.test}

    def to(self, device: torch.device | str) -> "Prepared":
        """Return a copy with its splits on ``device``."""
        moved = {name: part.to(device) for name, part in self.parts().items()}
        return replace(self, train=moved["train"], val=moved["val"], test=moved["test"])


def image_shape(images: Tensor) -> tuple[int, int, int]:
    """Return (C, H, W) of images (N, C, H, W)."""
    channels, height, width = images.shape[1:]
    return channels, height, width


def to_float(images: Tensor) -> Tensor:
    """Return uint8 images (any shape) as float32 in [0, 1]."""
    return images.float() / 255


def unit(images: Tensor) -> Tensor:
    """Return images in [0, 1], whether they are already or are uint8."""
    return images if images.is_floating_point() else to_float(images)


def save(prepared: Prepared, folder: Path) -> tuple[Path, Path]:
    """Write the tensors and their description, and return both paths."""
    path = folder / TENSORS
    tensors = {f"{name}_images": part.images for name, part in prepared.parts().items()}
    tensors |= {f"{name}_labels": part.labels for name, part in prepared.parts().items()}
    tensors |= {f"{name}_indices": index for name, index in prepared.indices.items()}
    save_tensors(path, tensors)
    description = {
        "classes": prepared.classes,
        "mean": prepared.mean,
        "std": prepared.std,
        "counts": {name: len(part) for name, part in prepared.parts().items()},
        "image_shape": prepared.image_shape,
        "duplicates_train_test": prepared.duplicates_train_test,
        "source": prepared.provenance,
    }
    write_sealed(folder / DESCRIPTION, description, [path])
    return path, folder / DESCRIPTION


def load(folder: Path) -> Prepared:
    """Read what `save` wrote; raise FileError if a file is missing or differs from that."""
    facts = read_sealed(folder / DESCRIPTION, FACTS)
    check_files(folder / DESCRIPTION, facts, [folder / TENSORS])
    tensors = load_tensors(folder / TENSORS)
    return Prepared(
        **{name: Split(tensors[f"{name}_images"], tensors[f"{name}_labels"]) for name in PARTS},
        mean=tuple(facts["mean"]),
        std=tuple(facts["std"]),
        classes=tuple(facts["classes"]),
        provenance=facts["source"],
        indices={n: tensors[f"{n}_indices"] for n in PARTS if f"{n}_indices" in tensors},
        duplicates_train_test=facts["duplicates_train_test"],
        sha256=facts[FILES][TENSORS],
    )
