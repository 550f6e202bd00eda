"""Read image files of common formats as square uint8 arrays."""

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from cemlib.data.raw import DataError, shown

Pixels: TypeAlias = NDArray[np.uint8]

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
)
# Only these decoders are tried, whatever the file's name claims: some of Pillow's others start
# external programs.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
# A few kilobytes can decode to gigabytes. Pillow itself only warns up to twice its own limit.
MAX_PIXELS = 2**26


def read_image(path: Path, size: int, channels: int | None) -> Pixels:
    """Return an image file, or the first frame of an animation, as (channels, size, size).

    Its format, one of `FORMATS`, is recognised by its content, and its EXIF orientation is applied.
    `channels` is 1, 3, or None for as many as the image has.

    Raises:
        DataError: if the file is not an image, is truncated, is absurdly large or has pixels
            without a defined range.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would wait for a writer
            raise ValueError("not a regular file")
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(
                    f"{image.width} x {image.height} pixels are more than {MAX_PIXELS}"
                )
            image.load()
            ImageOps.exif_transpose(image, in_place=True)
            return to_array(image, size, channels)
    except Exception as error:  # decoders raise nearly anything on damaged files
        raise DataError(
            f"{shown(path)}: cannot be read as an image ({type(error).__name__}: {error}); "
            "replace the file or remove it"
        ) from error


def to_array(image: Image.Image, size: int, channels: int | None) -> Pixels:
    """Return a decoded image as an array (channels, size, size).

    Transparency is composited on black. The shorter side is scaled to ``size`` (bilinear,
    antialiased) and the middle is kept; an image of this size stays as it is.
    """
    plain = _grey_or_rgb(image)
    if channels is not None:
        plain = _in_mode(plain, "L" if channels == 1 else "RGB")
    # One step, not resize and crop: a 1 x 1,000,000 strip stays cheap.
    array = np.asarray(ImageOps.fit(plain, (size, size), Image.Resampling.BILINEAR))
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def stack(arrays: Sequence[Pixels]) -> Tensor:
    """Stack (C, H, W) arrays into (N, C, H, W); grey ones become RGB if any is RGB."""
    shape = max(array.shape for array in arrays)
    return torch.from_numpy(np.stack([np.broadcast_to(array, shape) for array in arrays]))


def _grey_or_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F" or (image.mode == "I" and image.format == "TIFF"):
        raise ValueError(
            "float and 32-bit pixels have no defined range; save with 8 or 16 bits, unsigned"
        )
    if image.mode.startswith("I"):  # 16-bit grey, of which Pillow would clip all above 255
        deep = np.asarray(image).astype(np.int64)
        return Image.fromarray(((deep + 128) // 257).astype(np.uint8))
    mode = "L" if image.mode in ("1", "L", "LA") else "RGB"
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    return _in_mode(image, mode)


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    """Convert to a mode, without Pillow's copy of an image that has it already."""
    return image if image.mode == mode else image.convert(mode)
