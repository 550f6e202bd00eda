"""Turn a source's images into the splits of an experiment.

Jobs that only read prepared data import `cemlib.data.prepared`, so as not to depend on this code.
"""

import hashlib
import os
from pathlib import Path

import torch
from torch import Generator, Tensor

from cemlib.config.data import DataConfig
from cemlib.data import SOURCES
from cemlib.data.prepared import Prepared, Split
from cemlib.data.raw import DataError, Raw, shown
from cemlib.numerics.seeds import generator


def prepare(config: DataConfig) -> Prepared:
    """Read the source's images and split them.

    The training images are limited, then divided into train and val with the same share of every
    class. All parts are in random order, because an attacker with public data has the first part of
    the test images, which must not be of some classes only, or in MNIST of some writers only.

    Raises:
        DataError: if the images cannot be used.
    """
    root = resolve_root(config)
    place = shown(config.source if root is None or config.source == "digits" else root)
    try:
        raw = SOURCES[config.source](config, root)
    except OSError as error:
        raise DataError(
            f"{place}: cannot be read ({error}); check the path and its permissions"
        ) from error
    try:
        return divided(raw, config)
    except DataError as error:
        raise DataError(f"{place}: {error}") from error


def divided(raw: Raw, config: DataConfig, every_class: bool = True) -> Prepared:
    """Split a source's images as `prepare` does, and compute their statistics.

    With `every_class` each class must have `min_per_class` training images and a test image.

    Raises:
        DataError: if there are too few images or classes, or a channel is constant.
    """
    indices = split_indices(raw, config)
    parts = {"train": raw.train, "val": raw.train, "test": raw.test_source}
    parts = {n: Split(s.images[indices[n]], s.labels[indices[n]]) for n, s in parts.items()}
    if every_class:
        _check_class_sizes(raw.classes[: config.classes], parts, config.min_per_class)
    if not len(parts["train"]):
        raise DataError("no image is left to train on after the splits; add images")
    mean, std = channel_statistics(parts["train"].images)
    known = {*_digests(parts["train"].images), *_digests(parts["val"].images)}
    return Prepared(
        train=parts["train"],
        val=parts["val"],
        test=parts["test"],
        mean=mean,
        std=std,
        classes=raw.classes[: config.classes],
        provenance=raw.provenance,
        indices=indices,
        duplicates_train_test=sum(each in known for each in _digests(parts["test"].images)),
    )


def resolve_root(config: DataConfig) -> Path | None:
    """Return the folder of the images: `data.root`, else CEMLIB_DATA, else None."""
    place = config.root or os.environ.get("CEMLIB_DATA")
    return Path(place).expanduser() if place else None


def split_indices(raw: Raw, config: DataConfig) -> dict[str, Tensor]:
    """Return the `Prepared.indices`; raise DataError if there are too few classes."""

    def stream(name: str) -> Generator:
        return generator(config.split_seed, f"data/{name}")

    def limited(index: Tensor, labels: Tensor, limit: int | None, name: str) -> Tensor:
        if limit is None or limit >= len(index):
            return index
        return index[stratified(labels[index], limit, stream(name))[0]]

    def shuffled(index: Tensor, name: str) -> Tensor:
        return index[torch.randperm(len(index), generator=stream(name))]

    found = len(raw.classes)
    count = config.classes or found
    if count > found:
        raise DataError(f"data.classes is {count}, and there are {found} classes; lower it")
    labels, test_labels = raw.train.labels, raw.test_source.labels
    pool = (labels < count).nonzero().flatten()
    if raw.test is None:
        share = _share(len(pool), config.test_fraction)
        test, pool = (pool[part] for part in stratified(labels[pool], share, stream("test")))
    else:
        test = (test_labels < count).nonzero().flatten()
    pool = limited(pool, labels, config.train_limit, "train_limit")
    test = limited(test, test_labels, config.test_limit, "test_limit")
    total = _share(len(pool), config.val_fraction)
    val, train = (pool[part] for part in stratified(labels[pool], total, stream("val")))
    return {
        "train": shuffled(train, "train_order"),
        "val": shuffled(val, "val_order"),
        "test": shuffled(test, "test_order"),
    }


def stratified(labels: Tensor, total: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw ``total`` positions of ``labels`` (N,), the same share of every class.

    Both the drawn positions and the others are returned in ascending order.
    """
    counts = labels.bincount()
    order = torch.randperm(len(labels), generator=generator)
    order = order[labels[order].argsort(stable=True)]
    rank = torch.arange(len(labels)) - (counts.cumsum(0) - counts)[labels[order]]
    chosen = rank < allocate(counts, total)[labels[order]]
    return order[chosen].sort().values, order[~chosen].sort().values


def allocate(counts: Tensor, total: int) -> Tensor:
    """Share ``total`` among classes in proportion to ``counts`` (C,), by largest remainder.

    Equal remainders favour the lower class index. No class gets more than it has.

    >>> allocate(torch.tensor([5, 3, 2]), 4)
    tensor([2, 1, 1])
    """
    shares = counts * total
    population = int(counts.sum())
    base = shares.div(population, rounding_mode="floor")
    left = total - int(base.sum())
    largest = (shares % population).argsort(descending=True, stable=True)[:left]
    return base.index_add(0, largest, torch.ones_like(largest))


def _share(count: int, fraction: float) -> int:
    return max(1, round(count * fraction))


def _check_class_sizes(classes: tuple[str, ...], parts: dict[str, Split], at_least: int) -> None:
    for name, part, wanted in (("training", "train", at_least), ("test", "test", 1)):
        counts = parts[part].labels.bincount(minlength=len(classes)).tolist()
        few = {label: n for label, n in zip(classes, counts, strict=True) if n < wanted}
        if few:
            raise DataError(
                f"too few {name} images after the splits, {wanted} per class needed: {few}; add "
                "images, raise data.train_limit or data.test_limit, change the fractions, or "
                "lower data.min_per_class"
            )


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation per channel of uint8 images (N, C, H, W), over all pixels.

    They are on the scale [0, 1], and the deviation is divided by n.

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


def _digests(images: Tensor) -> list[bytes]:
    return [hashlib.sha256(image.tobytes()).digest() for image in images.numpy()]
