"""The prepared tensors of an experiment: split, measured, kept in one file, checked when read."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cemlib.data.errors import DataError
from cemlib.records.files import FileError, load_tensors, save_tensors, sha256
from cemlib.records.seal import read_sealed, write_sealed

PARTS = ("train", "val", "test")
TENSORS = "prepared.safetensors"
DESCRIPTION = "data.json"
FACTS = ("sha256", "classes", "mean", "std", "image_shape", "source", "duplicates_train_test")


@dataclass(frozen=True)
class Split:
    """Images uint8 (N, C, H, W) and their labels int64 (N,)."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> "Split":
        """Return the split on ``device`` (itself, if it is there)."""
        return Split(self.images.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Prepared:
    """All images of an experiment.

    Attributes:
        train: for fitting.
        val: held out of the training images, for every selection.
        test: for the final figures alone.
        mean: per channel, of ``train`` on the scale [0, 1].
        std: per channel, over all pixels of ``train``.
        classes: names in the order of the labels.
        image_shape: (C, H, W).
        provenance: what the source says about itself.
        indices: per part, positions in the source's training images (of ``test``: in its test
            images, where it has any).
        duplicates_train_test: test images that are pixel-identical to one in train or val.
    """

    train: Split
    val: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    classes: tuple[str, ...]
    image_shape: tuple[int, int, int]
    provenance: dict[str, Any] = field(default_factory=dict)
    indices: Mapping[str, Tensor] = field(default_factory=dict)
    duplicates_train_test: int = 0

    def parts(self) -> dict[str, Split]:
        """Return the three splits by name."""
        return {"train": self.train, "val": self.val, "test": self.test}

    def to(self, device: torch.device | str) -> "Prepared":
        """Return the same with its splits on ``device``."""
        moved = {name: part.to(device) for name, part in self.parts().items()}
        return replace(self, train=moved["train"], val=moved["val"], test=moved["test"])


def save(prepared: Prepared, folder: Path) -> tuple[Path, Path]:
    """Write the tensors and their description into ``folder``; return both paths."""
    tensors = {f"{name}_images": part.images for name, part in prepared.parts().items()}
    tensors |= {f"{name}_labels": part.labels for name, part in prepared.parts().items()}
    tensors |= {f"{name}_indices": index for name, index in prepared.indices.items()}
    save_tensors(folder / TENSORS, tensors)
    description = {
        "classes": prepared.classes,
        "mean": prepared.mean,
        "std": prepared.std,
        "counts": {name: len(part) for name, part in prepared.parts().items()},
        "image_shape": prepared.image_shape,
        "duplicates_train_test": prepared.duplicates_train_test,
        "source": prepared.provenance,
        "split_indices_sha256": _indices_sha256(prepared.indices),
        "sha256": sha256(folder / TENSORS),
    }
    write_sealed(folder / DESCRIPTION, description)
    return folder / TENSORS, folder / DESCRIPTION


def load(folder: Path) -> Prepared:
    """Read what `save` wrote.

    Raises:
        DataError: if a file is missing, or differs from what its description says.
    """
    path = folder / TENSORS
    try:
        facts = read_sealed(folder / DESCRIPTION, FACTS)
        tensors = load_tensors(path)
    except FileError as error:
        raise DataError(str(error)) from error
    if sha256(path) != facts["sha256"]:
        raise DataError(
            f"{path}: its checksum is not the one in {DESCRIPTION}: it was changed or damaged "
            "after it was written; delete the folder and rerun the preparation"
        )
    parts = {name: Split(tensors[f"{name}_images"], tensors[f"{name}_labels"]) for name in PARTS}
    indices = {name: tensors.get(f"{name}_indices") for name in PARTS}
    channels, height, width = facts["image_shape"]
    return Prepared(
        **parts,
        mean=tuple(facts["mean"]),
        std=tuple(facts["std"]),
        classes=tuple(facts["classes"]),
        image_shape=(channels, height, width),
        provenance=facts["source"],
        indices={name: index for name, index in indices.items() if index is not None},
        duplicates_train_test=facts["duplicates_train_test"],
    )


def checksum(folder: Path) -> str:
    """Return the SHA-256 of prepared tensors as their description has it; `load` compares both.

    Raises:
        DataError: if there is no such description.
    """
    try:
        return str(read_sealed(folder / DESCRIPTION, ("sha256",))["sha256"])
    except FileError as error:
        raise DataError(str(error)) from error


def _indices_sha256(indices: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(indices):
        digest.update(name.encode() + indices[name].numpy().tobytes())
    return digest.hexdigest()
