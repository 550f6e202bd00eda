"""The images of a source before they are split, and the exception if they cannot be used."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from cemlib.data.prepared import Split
from cemlib.records.files import FileError


class DataError(FileError):
    """The images cannot be used; the message names the place, what was found and what to do."""


def shown(path: Path | str) -> str:
    r"""Return a path or name, which may hold nearly any bytes, as one printable line.

    >>> shown("a\nb")
    'a\\nb'
    """
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(path))
    return "".join(escaped)


@dataclass(frozen=True)
class Raw:
    """Images of one source, of one size, before they are split.

    Attributes:
        train: Training images, labels in [0, len(classes)); all if the source has no test split.
        test: The test images, or None.
        classes: Names in the order of the labels.
        provenance: Origin of the images, as JSON values and without paths of this machine.
    """

    train: Split
    test: Split | None
    classes: tuple[str, ...]
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check types, shapes and labels; raise DataError."""
        check_split("train", self.train, len(self.classes))
        if self.test is not None:
            check_split("test", self.test, len(self.classes))
            theirs, ours = (tuple(each.images.shape[1:]) for each in (self.test, self.train))
            if theirs != ours:
                raise DataError(
                    f"test: images of shape {theirs}, the training images have {ours}; give both"
                    " the same shape"
                )

    @property
    def test_source(self) -> Split:
        """Return the split that test images are taken from."""
        return self.train if self.test is None else self.test


def check_split(where: str, split: Split, num_classes: int) -> None:
    """Raise DataError, naming `where`, for a wrong type or shape, or a label without a class."""
    images, labels = split.images, split.labels
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
        found = f"{images.dtype} {tuple(images.shape)}"
        is_last = images.ndim == 4 and images.shape[1] > 3 and images.shape[3] in (1, 3)
        how = "; put the channels first, with permute(0, 3, 1, 2) (tensor) or transpose (array)"
        advice = how if is_last else ""
        raise DataError(f"{where}: images must be uint8 (N, 1 or 3, H, W), found {found}{advice}")
    if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
        found = f"{labels.dtype} {tuple(labels.shape)}"
        count = len(images)
        raise DataError(f"{where}: {count} images need int64 labels ({count},), found {found}")
    if len(labels) == 0:
        raise DataError(f"{where}: no images")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        raise DataError(f"{where}: labels from {low} to {high} for {num_classes} classes")
