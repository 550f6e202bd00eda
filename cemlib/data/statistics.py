"""Facts about stored images: channel statistics and duplicates."""

import hashlib

import torch
from torch import Tensor

from cemlib.data.errors import DataError


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
