"""Augmentation of a whole batch on its device: random crop, mirror, rotation."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from cemlib.config.data import AugmentConfig


@dataclass(frozen=True)
class Augment:
    """Crop from the zero-padded image, mirror, rotate: the order of the published protocol.

    Crop and mirror move whole pixels and so keep their bits; the rotation is the one resampling.
    """

    config: AugmentConfig

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Return changed images, each drawn anew.

        Args:
            images: float (N, C, H, W) in [0, 1]; left as they are.
            generator: on the CPU, whatever the device of the images: results do not depend on it.
        """
        padding, count = self.config.crop_padding, len(images)
        if padding:
            offsets = torch.randint(2 * padding + 1, (2, count), generator=generator)
            images = crop(images, padding, offsets)
        if self.config.flip:
            images = mirror(images, torch.rand(count, generator=generator) < 0.5)
        if self.config.rotation:
            turn = 2 * torch.rand(count, generator=generator) - 1
            images = rotate(images, turn * self.config.rotation)
        return images


def crop(images: Tensor, padding: int, offsets: Tensor) -> Tensor:
    """Cut windows of the old size out of images (N, C, H, W) padded with zeros.

    Args:
        images: of any type.
        padding: zeros on each side, in pixels.
        offsets: long (2, N), top and left of each window in the padded image, in [0, 2 padding].
    """
    height, width = images.shape[2:]
    windows = F.pad(images, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    top, left = offsets.to(images.device)
    return windows[torch.arange(len(images), device=images.device), :, top, left]


def mirror(images: Tensor, chosen: Tensor) -> Tensor:
    """Swap left and right in the ``chosen`` (bool (N,)) of the images (N, C, H, W)."""
    return torch.where(chosen.to(images.device)[:, None, None, None], images.flip(3), images)


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Turn images (N, C, H, W) counter-clockwise about their centre by ``degrees`` (N,).

    Bilinear; what comes from outside is 0.
    """
    height, width = images.shape[2:]
    angle = degrees.to(images.device, images.dtype) * (math.pi / 180)
    cosine, sine, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    # Source position of each output pixel, in coordinates that run from -1 to 1 along each side.
    theta = torch.stack([cosine, -sine * height / width, zero, sine * width / height, cosine, zero])
    grid = F.affine_grid(theta.T.reshape(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, "bilinear", "zeros", align_corners=False)
