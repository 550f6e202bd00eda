"""Shuffled, augmented batches, made from a split's tensors on their device.

The order and the random draws of an epoch are made at its start, and the position in the epoch is a
tensor on the device, too. So no step waits for the host, and steps can be replayed as CUDA graphs.
"""

import torch
from torch import Generator, Tensor

from cemlib.data.augment import Augment, Draws
from cemlib.data.prepared import Split


class Shuffle:
    """Row indices of a data set, in a random order for every epoch.

    Attributes:
        sizes: Sizes of an epoch's batches, of which the last may be smaller. One of a single row is
            left out, because batch normalisation has no variance for it.
    """

    def __init__(self, count: int, batch_size: int, device: torch.device) -> None:
        whole, rest = divmod(count, batch_size)
        self.sizes = (batch_size,) * whole + ((rest,) if rest > 1 else ())
        self._order = torch.arange(count, device=device)
        self._done = torch.zeros((), dtype=torch.long, device=device)
        self._ahead = torch.arange(count, device=device)

    def begin(self, order: Generator) -> None:
        """Start an epoch in an order drawn by a CPU generator."""
        self._order.copy_(torch.randperm(len(self._order), generator=order))
        self._done.zero_()

    def take(self, size: int) -> tuple[Tensor, Tensor]:
        """Return the next ``size`` positions in the epoch and the rows there, both (size,)."""
        places = self._done + self._ahead[:size]
        self._done += size
        return places, self._order[places]


class Batches:
    """Shuffled, augmented batches of a split, made on its device."""

    def __init__(self, split: Split, batch_size: int, augment: Augment) -> None:
        self.split, self.augment = split, augment
        self._shuffle = Shuffle(len(split), batch_size, split.labels.device)
        self.sizes = self._shuffle.sizes
        drawn = augment.draw(sum(self.sizes), Generator())
        self._draws = [each.to(split.labels.device) for each in drawn]

    def begin(self, order: Generator, draws: Generator) -> None:
        """Start an epoch: draw its order and its augmentation from two CPU generators.

        The draws are made batch by batch, as if each batch were drawn just before its step.
        """
        self._shuffle.begin(order)
        drawn = [self.augment.draw(size, draws) for size in self.sizes]
        for kept, parts in zip(self._draws, zip(*drawn, strict=True), strict=True):
            kept.copy_(torch.cat(parts))

    def take(self, size: int) -> tuple[Tensor, Tensor]:
        """Return the next images in [0, 1], as channels_last, and their labels (size,)."""
        places, rows = self._shuffle.take(size)
        draws = Draws(*(each[places] for each in self._draws))
        images = self.augment(self.split.images[rows], draws)
        return images.contiguous(memory_format=torch.channels_last), self.split.labels[rows]
