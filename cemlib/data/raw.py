"""The images of a source before they are split, and the exception if they cannot be used."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

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
    """Images of one source, resized to the configured size.

    Attributes:
        train_images: uint8 (N, C, H, W); all images if the source has no test split.
        train_labels: int64 (N,), each in [0, len(classes)).
        test_images: uint8 (M, C, H, W), or None.
        test_labels: int64 (M,), or None.
        classes: Names in the order of the labels.
        provenance: Origin of the images, as JSON values and without paths of this machine.
        shuffle_test: Whether test images are shuffled; False keeps an official order that is mixed.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor | None
    test_labels: Tensor | None
    classes: tuple[str, ...]
    provenance: dict[str, Any] = field(default_factory=dict)
    shuffle_test: bool = True

    def __post_init__(self) -> None:
        """Check types, shapes and labels."""
        if (self.test_images is None) != (self.test_labels is None):
            raise DataError("a source gave test images without labels, or labels without images")
        check_part("train", self.train_images, self.train_labels, len(self.classes))
        if self.test_images is not None and self.test_labels is not None:
            check_part("test", self.test_images, self.test_labels, len(self.classes))


def check_part(where: str, images: Tensor, labels: Tensor, num_classes: int) -> None:
    """Check that images and labels belong together.

    Raises:
        DataError: for a wrong type or shape, or a label without a class; it names ``where``.
    """
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
        found = f"{images.dtype} {tuple(images.shape)}"
        raise DataError(f"{where}: images must be uint8 (N, 1 or 3, H, W), found {found}")
    if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
        found = f"{labels.dtype} {tuple(labels.shape)}"
        raise DataError(f"{where}: labels must be int64 ({len(images)},), found {found}")
    if len(labels) == 0:
        raise DataError(f"{where}: no images")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        raise DataError(f"{where}: labels from {low} to {high} for {num_classes} classes")
