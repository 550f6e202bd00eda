"""Prepared data from tensors, arrays or Datasets in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from cemlib.config.data import DataConfig
from cemlib.data.prepare import divided
from cemlib.data.prepared import Prepared, Split
from cemlib.data.raw import DataError, Raw

Images = Tensor | ArrayLike | Dataset[Any]
Labels = Tensor | ArrayLike
CHUNK = 256  # items of a Dataset at once


def from_tensors(
    images: Images,
    labels: Labels | None = None,
    test_images: Images | None = None,
    test_labels: Labels | None = None,
    *,
    classes: Sequence[str] | None = None,
    config: DataConfig = DataConfig(),  # noqa: B008 - frozen
    every_class: bool = True,
) -> Prepared:
    """Split images into train, val and test, as `cemlib prepare` does.

    Args:
        images: (N, C, H, W) with 1 or 3 channels, uint8 or floats in [0, 1], which are rounded to
            256 levels; a tensor, a NumPy array, or a torch Dataset of (image, label) pairs.
        labels: Integers (N,), from 0 on; None for a Dataset.
        test_images: Test images of the same shape; None to hold out a share of `images`.
        test_labels: Their labels.
        classes: Names in the order of the labels; default: their numbers.
        config: The section `data` of a study, which sets the splits; images are not resized.
        every_class: Whether each class must have enough images, as a training needs.

    Raises:
        DataError: if images or labels have a wrong type, shape or range, or are too few.

    Example:
        >>> draws = torch.Generator().manual_seed(0)
        >>> images = torch.randint(256, (40, 3, 16, 16), dtype=torch.uint8, generator=draws)
        >>> data = from_tensors(images, torch.arange(40) % 2)
        >>> len(data.train), len(data.val), len(data.test)
        (27, 3, 10)
    """
    train, test = _split("images", "labels", images, labels), None
    if test_images is not None:
        test = _split("test_images", "test_labels", test_images, test_labels)
    elif test_labels is not None:
        raise DataError("test_images: missing, but there are test_labels; give both or neither")
    if not train.labels.numel():
        raise DataError("labels: there are none; give at least one image with its label")
    given = [each.labels for each in (train, test) if each is not None]
    highest = max(int(labels.max()) for labels in given if labels.numel())
    names = classes if classes is not None else range(highest + 1)
    named = tuple(str(name) for name in names)
    return divided(Raw(train, test, named), config, every_class)


def _split(images_name: str, labels_name: str, images: Images, labels: Labels | None) -> Split:
    """Return images and int64 labels on the CPU; `Raw` checks types and shapes."""
    if isinstance(images, Dataset):
        if labels is not None:
            raise DataError(f"{labels_name}: the Dataset {images_name} has its own; leave them out")
        return _stacked(images_name, images)
    if labels is None:
        raise DataError(
            f"{labels_name}: missing; give the class of every image as integers (N,), or a torch"
            f" Dataset of (image, label) pairs as {images_name}"
        )
    pixels, classes = _tensor(images_name, images), _tensor(labels_name, labels)
    return Split(_bytes(images_name, pixels), _integers(labels_name, classes))


def _stacked(name: str, dataset: Dataset[Any]) -> Split:
    # A generator of its own: a DataLoader takes a number from torch's global one otherwise.
    loader = DataLoader(dataset, CHUNK, generator=torch.Generator())
    try:
        parts = [(_bytes(name, x.cpu()), _integers(name, y.cpu())) for x, y in loader]
        if not parts:
            raise DataError(f"{name}: empty; give at least one image with its label")
        images, labels = zip(*parts, strict=True)
        return Split(torch.cat(images), torch.cat(labels))
    except DataError:
        raise
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{name}: the Dataset must give pairs of an image (C, H, W), a tensor or an array and"
            f" always of one size, and an integer label ({error})"
        ) from error


def _tensor(name: str, values: Tensor | ArrayLike) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().cpu()
    try:
        return torch.from_numpy(np.array(values, order="C"))  # a copy, also of a reversed view
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: must be a tensor or an array of numbers ({error})") from error


def _integers(name: str, labels: Tensor) -> Tensor:
    if labels.is_floating_point() and labels.numel():
        raise DataError(f"{name}: labels must be integers, found {labels.dtype}")
    return labels.long()


def _bytes(name: str, images: Tensor) -> Tensor:
    """Return floats in [0, 1] as uint8, and all else as it is."""
    if not images.is_floating_point() or not images.numel():
        return images
    low, high = images.min().item(), images.max().item()
    if not (low >= 0 and high <= 1):  # true for NaN as well
        raise DataError(
            f"{name}: floats must lie in [0, 1], found {low:g} to {high:g}; divide by 255, and"
            " let the network normalise: SplitModel.from_module(..., mean=, std=)"
        )
    return images.mul(255).round().to(torch.uint8)
