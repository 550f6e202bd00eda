"""Pictures of originals above their reconstructions."""

from io import BytesIO
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from cemlib.records.files import write_bytes

COLUMNS = 10
EXTREMES = 5  # images at each end
SIDE = 64  # images are enlarged by a whole factor to at most this many pixels


def showcase(labels: Tensor, first: int) -> list[int]:
    """Return the index of each class's first test image from `first` on, for ten classes at most.

    They depend on the labels alone, so that all pictures of an experiment show the same images.
    """
    tail = labels[first:].tolist()
    return [first + tail.index(label) for label in sorted(set(tail))[:COLUMNS]]


def extremes(mse: Tensor) -> list[int]:
    """Return the indices of at most five images of lowest and five of highest MSE, none twice."""
    order = mse.argsort(stable=True).tolist()
    count = min(EXTREMES, len(order) // 2)
    return order[:count] + order[len(order) - count :]


def strip(originals: Tensor, reconstructions: Tensor, gap: int = 0) -> Image.Image:
    """Return a picture of originals (n, C, H, W) in [0, 1] above their reconstructions.

    `gap` white pixels follow each image on its right and below it.
    """
    factor = max(1, SIDE // originals.shape[-1])
    images = torch.cat([originals, reconstructions]).clamp(0, 1).mul(255).round().to(torch.uint8)
    images = images.repeat_interleave(factor, 2).repeat_interleave(factor, 3)
    rows = F.pad(images, (0, gap, 0, gap), value=255).chunk(2)
    pixels = torch.cat([torch.cat(list(row), dim=2) for row in rows], dim=1)
    array = pixels.permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(array.squeeze(2) if array.shape[2] == 1 else array)


def write_strip(path: Path, originals: Tensor, reconstructions: Tensor) -> None:
    """Write the picture of `strip` as PNG."""
    content = BytesIO()
    strip(originals, reconstructions).save(content, "PNG")
    write_bytes(path, content.getvalue())
