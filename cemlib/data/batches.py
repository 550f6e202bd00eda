"""Batches straight from a split's tensors: no loader processes, no copies between devices."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from cemlib.data.prepared import Split


def to_float(images: Tensor) -> Tensor:
    """Return uint8 images (any shape) as float32 in [0, 1]."""
    return images.float() / 255


def batches(
    split: Split, batch_size: int, *, order: Generator | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (images float32 (B, C, H, W) in [0, 1], labels (B,)) once over ``split``.

    Args:
        split: the batches are made where it lies (`Split.to` moves it whole, once).
        batch_size: images per batch; the last may be smaller.
        order: CPU generator of the random order, for training: then a last batch of one image is
            left out, because batch normalisation has no variance for it. None = stored order and
            every image.
    """
    if order is None:
        for start in range(0, len(split), batch_size):
            part = slice(start, start + batch_size)
            yield to_float(split.images[part]), split.labels[part]
        return
    shuffle = torch.randperm(len(split), generator=order).to(split.labels.device)
    for index in torch.split(shuffle, batch_size):
        if len(index) > 1:
            yield to_float(split.images[index]), split.labels[index]
