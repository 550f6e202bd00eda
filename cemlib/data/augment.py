"""Augmentation of a whole batch on its device: random crop, mirror, rotation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from cemlib.config.data import AugmentConfig
from cemlib.data.pixels import unit


@dataclass(frozen=True)
class Draws:
    """The random draws that augment N images."""

    offsets: Tensor  # long (N, 2), top and left of the window in the padded image
    mirrored: Tensor  # bool (N,)
    degrees: Tensor  # (N,), counter-clockwise

    @staticmethod
    def cat(parts: Sequence["Draws"]) -> "Draws":
        """Join the draws of several sets of images, one after the other."""
        return Draws(
            torch.cat([part.offsets for part in parts]),
            torch.cat([part.mirrored for part in parts]),
            torch.cat([part.degrees for part in parts]),
        )

    def __getitem__(self, places: Tensor) -> "Draws":
        """Return the draws of some of the images."""
        return Draws(self.offsets[places], self.mirrored[places], self.degrees[places])

    def to(self, device: torch.device) -> "Draws":
        """Return the same on a device."""
        return Draws(self.offsets.to(device), self.mirrored.to(device), self.degrees.to(device))

    def copy_(self, other: "Draws") -> None:
        """Take over others of the same number, in place."""
        self.offsets.copy_(other.offsets)
        self.mirrored.copy_(other.mirrored)
        self.degrees.copy_(other.degrees)


@dataclass(frozen=True)
class Augment:
    """Crop from the zero-padded image, mirror, rotate: the order of the published protocol.

    Crop and mirror move whole pixels and so keep their bits; the rotation is the one resampling.
    """

    config: AugmentConfig

    def draw(self, count: int, generator: Generator) -> Draws:
        """Draw the changes of some images; nothing is drawn for a change that is not configured.

        Args:
            count: number of images N.
            generator: on the CPU, whatever the device of the images: results do not depend on it.
        """
        padding, angle = self.config.crop_padding, self.config.rotation
        offsets = torch.zeros(2, count, dtype=torch.long)
        mirrored, degrees = torch.zeros(count, dtype=torch.bool), torch.zeros(count)
        if padding:
            offsets = torch.randint(2 * padding + 1, (2, count), generator=generator)
        if self.config.flip:
            mirrored = torch.rand(count, generator=generator) < 0.5
        if angle:
            degrees = (2 * torch.rand(count, generator=generator) - 1) * angle
        return Draws(offsets.T, mirrored, degrees)

    def __call__(self, images: Tensor, draws: Draws) -> Tensor:
        """Return the images, changed as drawn.

        Args:
            images: uint8, or float in [0, 1], (N, C, H, W); left as they are.
            draws: of as many images, on their device.

        Returns:
            float (N, C, H, W) in [0, 1].
        """
        if self.config.crop_padding:
            images = crop(images, self.config.crop_padding, draws.offsets)
        if self.config.flip:
            images = mirror(images, draws.mirrored)
        images = unit(images)
        return rotate(images, draws.degrees) if self.config.rotation else images


def crop(images: Tensor, padding: int, offsets: Tensor) -> Tensor:
    """Cut windows of the old size out of images (N, C, H, W) padded with zeros.

    Args:
        images: of any type.
        padding: zeros on each side, in pixels.
        offsets: long (N, 2), top and left of each window in the padded image, in [0, 2 padding].
    """
    height, width = images.shape[2:]
    windows = F.pad(images, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    each = torch.arange(len(images), device=images.device)
    return windows[each, :, offsets[:, 0], offsets[:, 1]]


def mirror(images: Tensor, chosen: Tensor) -> Tensor:
    """Swap left and right in the ``chosen`` (bool (N,)) of the images (N, C, H, W)."""
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Turn images (N, C, H, W) counter-clockwise about their centre by ``degrees`` (N,).

    Bilinear; what comes from outside is 0.
    """
    height, width = images.shape[2:]
    angle = degrees.to(images.dtype) * (math.pi / 180)
    cosine, sine, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    # Source position of each output pixel, in coordinates that run from -1 to 1 along each side.
    theta = torch.stack([cosine, -sine * height / width, zero, sine * width / height, cosine, zero])
    grid = F.affine_grid(theta.T.reshape(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, "bilinear", "zeros", align_corners=False)
