"""Batches straight from a split's tensors, where they lie: no loader processes, no copies.

The order and all chances of an epoch are drawn at its start and stay in place, and the position in
it is a number on the device too. So a step takes its batch without a word from the host, and can be
replayed.
"""

import torch
from torch import Generator, Tensor

from cemlib.data.augment import Augment, Draws
from cemlib.data.prepared import Split


class Shuffle:
    """Rows of a set in an order that is drawn anew for every epoch.

    Args:
        count: rows of the set.
        batch_size: rows of a batch; the last may be smaller.
        device: where the rows are needed.

    Attributes:
        sizes: of the batches of an epoch. A last batch of one row is left out, because batch
            normalisation has no variance for it.
    """

    def __init__(self, count: int, batch_size: int, device: torch.device) -> None:
        whole, rest = divmod(count, batch_size)
        self.sizes = (batch_size,) * whole + ((rest,) if rest > 1 else ())
        self._order = torch.arange(count, device=device)
        self._done = torch.zeros((), dtype=torch.long, device=device)
        self._ahead = torch.arange(min(count, batch_size), device=device)

    def begin(self, order: Generator) -> None:
        """Start an epoch in the order that a CPU generator draws."""
        self._order.copy_(torch.randperm(len(self._order), generator=order))
        self._done.zero_()

    def take(self, size: int) -> tuple[Tensor, Tensor]:
        """Return places of the next rows in the epoch, and the rows: two long (size,)."""
        places = self._done + self._ahead[:size]
        self._done += size
        return places, self._order[places]


class Batches:
    """The shuffled, augmented batches of a split.

    Args:
        split: the batches are made where it lies (`Split.to` moves it whole, once).
        batch_size: images per batch; the last may be smaller.
        augment: changes of the images.
    """

    def __init__(self, split: Split, batch_size: int, augment: Augment) -> None:
        self.split, self.augment = split, augment
        self._shuffle = Shuffle(len(split), batch_size, split.labels.device)
        self.sizes = self._shuffle.sizes
        drawn = augment.draw(sum(self.sizes), Generator())
        self._draws = drawn.to(split.labels.device)

    def begin(self, order: Generator, draws: Generator) -> None:
        """Start an epoch: its order and its augmentation, from CPU generators.

        Results do not depend on the device, and each batch has the draws that it would have alone.
        """
        self._shuffle.begin(order)
        self._draws.copy_(Draws.cat([self.augment.draw(size, draws) for size in self.sizes]))

    def take(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the next batch: places in the epoch (size,), images in [0, 1], labels (size,)."""
        places, rows = self._shuffle.take(size)
        images = self.augment(self.split.images[rows], self._draws[places])
        return places, images, self.split.labels[rows]
