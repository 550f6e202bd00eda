"""Samples as rectangles of one class each, so that all classes are one batched tensor problem.

Tiles are for the products of a batch's rows, (B, D), with the matrices of their classes, (C, D, D).
A rectangle of B rows for every class would take C times the work, and rectangles of each class's
own size a loop. Padded rectangles of whole classes, in blocks of bounded memory, are for the fits
at an epoch's end.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

ON_GPU = 8  # factor of the size of blocks: there a launch costs more than overflowing a cache
TILE = 3  # rows of a tile, as a multiple of the mean class size: few classes need a second tile


class Tiles(NamedTuple):
    """The rows of a batch in rectangles (tiles) of one class each, with 0 where there is no row.

    Tile c holds the first rows of class c. The remaining rows of larger classes follow in extra
    tiles, of which (B - 1) // depth suffice, so the number of tiles follows from the shapes alone.
    """

    member: Tensor  # (B, C) 1 where the row is of the class, else 0
    sizes: Tensor  # (C,) rows of each class
    place: Tensor  # (B,) position of each row: tile * depth + row of the tile
    owners: Tensor  # (E,) class of each extra tile; any class for an empty one
    depth: int  # rows of a tile

    def arrange(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Arrange rows (B, D) as tiles (C, depth, D) and extra tiles (E, depth, D)."""
        num_classes = len(self.sizes)
        places = (num_classes + len(self.owners)) * self.depth
        filled = rows.new_zeros(places, rows.shape[1]).index_copy_(0, self.place, rows)
        tiles = filled.view(-1, self.depth, rows.shape[1])
        return tiles[:num_classes], tiles[num_classes:]


def tile(y: Tensor, num_classes: int, dtype: torch.dtype) -> Tiles:
    """Return the tiles of a batch with labels y in [0, num_classes), (B,)."""
    depth = min(len(y), TILE * math.ceil(len(y) / num_classes))
    of_class = y.unsqueeze(1) == torch.arange(num_classes, device=y.device)
    counted = of_class.cumsum(0)
    sizes = counted[-1]
    rank = counted.gather(1, y.unsqueeze(1)).squeeze(1) - 1
    further = (sizes - 1).clamp_min(0) // depth
    ends = further.cumsum(0)
    level = rank // depth
    number = torch.where(level == 0, y, num_classes - 1 + (ends - further)[y] + level)
    extra = torch.arange((len(y) - 1) // depth, device=y.device)
    return Tiles(
        member=of_class.to(dtype),
        sizes=sizes.to(dtype),
        place=number * depth + rank % depth,
        owners=torch.searchsorted(ends, extra, right=True).clamp_max(num_classes - 1),
        depth=depth,
    )


def own_product(rows: Tensor, matrices: Tensor, tiles: Tiles) -> Tensor:
    """Return each row of (B, D) times the matrix of its class, of (C, D, D)."""
    first, rest = tiles.arrange(rows)
    products = torch.cat([first @ matrices, rest @ matrices[tiles.owners]])
    return products.flatten(0, 1)[tiles.place]


def add_scatter(totals: Tensor, rows: Tensor, tiles: Tiles) -> None:
    """Add the outer product of each row of (B, D) to the total of its class, of (C, D, D)."""
    first, rest = tiles.arrange(rows)
    totals.baddbmm_(first.mT, first)
    owned = tiles.owners == torch.arange(len(totals), device=rows.device).unsqueeze(1)
    totals.view(len(totals), -1).addmm_(owned.to(rows), (rest.mT @ rest).flatten(1))


def class_blocks(
    y: Tensor, num_classes: int, block: int, *, width: int, more: int = 0
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield blocks of classes, the largest first: classes (c,), samples (c, M) and sizes (c,).

    The samples of a class are its ascending indices in the labels y, (N,), padded with 0 to the
    size M of the largest class of the block, or to 1. A class has `width` values for each sample
    and some `more` of its own; padded, a block has at most `block` values, on a GPU `ON_GPU` times
    as many.
    """
    sizes = torch.bincount(y, minlength=num_classes)
    of_classes = torch.split(y.argsort(stable=True), sizes.tolist())
    index = pad_sequence([*of_classes], batch_first=True)
    ordered, ids = (sizes * width + more).sort(descending=True, stable=True)
    values = ordered.tolist()
    block *= ON_GPU if y.is_cuda else 1
    cuts = [0]
    while cuts[-1] < len(values):
        most = max(1, values[cuts[-1]])
        cuts.append(min(len(values), cuts[-1] + max(1, block // most)))
    for start, stop in pairwise(cuts):
        chosen = ids[start:stop]
        yield chosen, index[chosen, : max(1, int(sizes[chosen].max()))], sizes[chosen]


def centre_(x: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Centre a rectangle x (c, M, D) of classes in place, and set its padding to 0.

    Return a mask (c, M), 1 for samples and 0 for padding, and the class means (c, 1, D).
    """
    mask = (torch.arange(x.shape[1], device=x.device) < sizes.unsqueeze(1)).to(x)
    centre = torch.einsum("cm,cmd->cd", mask, x) / sizes.clamp_min(1).unsqueeze(1)
    centre = centre.unsqueeze(1)
    x.sub_(centre).mul_(mask.unsqueeze(-1))
    return mask, centre
