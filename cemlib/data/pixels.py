"""Conversion of pixels from bytes, as stored, to floats in [0, 1]."""

from torch import Tensor


def to_float(images: Tensor) -> Tensor:
    """Return uint8 images (any shape) as float32 in [0, 1]."""
    return images.float() / 255


def unit(images: Tensor) -> Tensor:
    """Return images in [0, 1], whether they are already or are uint8."""
    return images if images.is_floating_point() else to_float(images)


def image_shape(images: Tensor) -> tuple[int, int, int]:
    """Return (C, H, W) of images (N, C, H, W)."""
    channels, height, width = images.shape[1:]
    return channels, height, width
