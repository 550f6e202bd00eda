"""From a source's images to the splits of an experiment.

Apart from `cemlib.data.prepared`, so that the jobs that only read prepared data depend on none of
what made them.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from cemlib.config.data import DataConfig
from cemlib.data import SOURCES
from cemlib.data.errors import DataError, shown
from cemlib.data.pixels import image_shape
from cemlib.data.prepared import Prepared, Split
from cemlib.data.raw import Raw
from cemlib.data.splits import shuffled, stratified
from cemlib.numerics.seeds import generator


def prepare(config: DataConfig) -> Prepared:
    """Read the source's images and split them.

    The training images are limited, then divided into train and val, each class in proportion,
    all by ``config.split_seed``. Train, val and test are in random order; only an official test
    order that is mixed already is kept (an attacker's share is the first part of the test images,
    which must not be the first classes).

    Raises:
        DataError: if the images cannot be used; nothing is written before.
    """
    root = resolve_root(config)
    place = shown(root or config.source)
    try:
        raw = SOURCES[config.source](config, root)
    except OSError as error:
        raise DataError(
            f"{place}: cannot be read ({error}); check the path and its rights"
        ) from error
    try:
        prepared = divided(raw, config)
    except DataError as error:
        raise DataError(f"{place}: {error}") from error
    _tell_duplicates(place, prepared)
    return prepared


def divided(raw: Raw, config: DataConfig, every_class: bool = True) -> Prepared:
    """Split and measure a source's images; see `prepare`.

    Args:
        raw: The images.
        config: How they are split.
        every_class: Whether each class must have `min_per_class` training images and a test image.

    Raises:
        DataError: if a class has too few images, or a channel is constant.
    """
    indices = split_indices(raw, config)
    train, val, test = _take(raw, indices)
    if every_class:
        _enough_per_class(raw.classes, train, test, config.min_per_class)
    mean, std = channel_statistics(train.images)
    return Prepared(
        train=train,
        val=val,
        test=test,
        mean=mean,
        std=std,
        classes=raw.classes,
        image_shape=image_shape(train.images),
        provenance=raw.provenance,
        indices=indices,
        duplicates_train_test=count_duplicates(torch.cat([train.images, val.images]), test.images),
    )


def _tell_duplicates(place: str, prepared: Prepared) -> None:
    if prepared.duplicates_train_test:
        print(
            f"warning: {place}: {prepared.duplicates_train_test} of {len(prepared.test)} test"
            " images are also training images, pixel by pixel; scores on them are too good",
            file=sys.stderr,
        )


def resolve_root(config: DataConfig) -> Path | None:
    """Return the folder of the images: `data.root`, or else CEMLIB_DATA, or else None."""
    place = config.root or os.environ.get("CEMLIB_DATA")
    return Path(place).expanduser() if place else None


def split_indices(raw: Raw, config: DataConfig) -> dict[str, Tensor]:
    """Return positions of train, val and test in the source's images (see `Prepared.indices`)."""
    stream = _streams(config.split_seed)
    pool = torch.arange(len(raw.train_labels))
    if raw.test_labels is None:
        test_labels = raw.train_labels
        total = _share(len(pool), config.test_fraction)
        test, pool = stratified(raw.train_labels, total, stream("test"))
    else:
        test_labels = raw.test_labels
        test = torch.arange(len(test_labels))
    pool = _limited(pool, raw.train_labels, config.train_limit, stream("train_limit"))
    test = _limited(test, test_labels, config.test_limit, stream("test_limit"))
    total = _share(len(pool), config.val_fraction)
    val, train = (pool[part] for part in stratified(raw.train_labels[pool], total, stream("val")))
    return {
        "train": shuffled(train, stream("train_order")),
        "val": shuffled(val, stream("val_order")),
        "test": shuffled(test, stream("test_order")) if raw.shuffle_test else test,
    }


def _streams(seed: int) -> Callable[[str], torch.Generator]:
    return lambda name: generator(seed, f"data/{name}")


def _share(count: int, fraction: float) -> int:
    return max(1, round(count * fraction))


def _limited(index: Tensor, labels: Tensor, limit: int | None, stream: torch.Generator) -> Tensor:
    if limit is None or limit >= len(index):
        return index
    return index[stratified(labels[index], limit, stream)[0]]


def _take(raw: Raw, indices: Mapping[str, Tensor]) -> tuple[Split, Split, Split]:
    train, val = (
        Split(raw.train_images[indices[name]], raw.train_labels[indices[name]])
        for name in ("train", "val")
    )
    images = raw.train_images if raw.test_images is None else raw.test_images
    labels = raw.train_labels if raw.test_labels is None else raw.test_labels
    return train, val, Split(images[indices["test"]], labels[indices["test"]])


def _enough_per_class(classes: tuple[str, ...], train: Split, test: Split, at_least: int) -> None:
    for name, part, wanted in (("training", train, at_least), ("test", test, 1)):
        counts = part.labels.bincount(minlength=len(classes)).tolist()
        few = {label: n for label, n in zip(classes, counts, strict=True) if n < wanted}
        if few:
            raise DataError(
                f"too few {name} images after the splits, {wanted} per class needed: {few}; add "
                "images, raise data.train_limit or data.test_limit, change the fractions, or "
                "lower data.min_per_class"
            )


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation per channel over all pixels, on the scale [0, 1].

    From exact counts of the 256 values in float64; population deviation (divided by n).

    Args:
        images: uint8 (N, C, H, W).

    Raises:
        DataError: if a channel is constant, which no encoder could normalise.
    """
    values = torch.arange(256, dtype=torch.float64) / 255
    means, deviations = [], []
    for channel in range(images.shape[1]):
        share = images[:, channel].flatten().bincount(minlength=256).double()
        share /= share.sum()
        mean = (share * values).sum()
        means.append(float(mean))
        deviations.append(float((share * (values - mean).square()).sum().sqrt()))
    if min(deviations) == 0:
        raise DataError(
            f"channel {deviations.index(0)} has the same value in every pixel of every training "
            "image; there is nothing to learn from such images"
        )
    return tuple(means), tuple(deviations)


def count_duplicates(train: Tensor, test: Tensor) -> int:
    """Return how many images of ``test`` equal some image of ``train`` in every pixel."""
    seen = set(_digests(train))
    return sum(digest in seen for digest in _digests(test))


def _digests(images: Tensor) -> list[bytes]:
    return [hashlib.sha256(image.tobytes()).digest() for image in images.numpy()]
