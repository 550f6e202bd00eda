"""Augmentation of a whole batch on its device: random crop, mirror, rotation."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from cemlib.config.data import AugmentConfig
from cemlib.data.prepared import unit


class Draws(NamedTuple):
    """The random draws that augment N images."""

    offsets: Tensor  # long (N, 2), top and left of the window in the padded image
    mirrored: Tensor  # bool (N,)
    degrees: Tensor  # (N,), counter-clockwise


@dataclass(frozen=True)
class Augment:
    """Crops of the zero-padded image, mirror images and rotations, in the published order.

    Only the rotation resamples pixels.
    """

    config: AugmentConfig

    def draw(self, count: int, generator: Generator) -> Draws:
        """Draw the configured changes of ``count`` images, and no others, from a CPU generator."""
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
        """Return changed copies, float in [0, 1], of images (N, C, H, W), uint8 or in [0, 1]."""
        if self.config.crop_padding:
            images = crop(images, self.config.crop_padding, draws.offsets)
        if self.config.flip:
            images = torch.where(draws.mirrored[:, None, None, None], images.flip(3), images)
        images = unit(images)
        return rotate(images, draws.degrees) if self.config.rotation else images


def crop(images: Tensor, padding: int, offsets: Tensor) -> Tensor:
    """Crop images (N, C, H, W) to their own size after padding every side with zeros.

    ``offsets`` (N, 2) are top and left of each crop in the padded image, in [0, 2 padding].
    """
    height, width = images.shape[2:]
    windows = F.pad(images, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    each = torch.arange(len(images), device=images.device)
    return windows[each, :, offsets[:, 0], offsets[:, 1]]


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Rotate images (N, C, H, W) counter-clockwise by ``degrees`` (N,), bilinearly, on black."""
    height, width = images.shape[2:]
    angle = degrees.to(images.dtype) * (math.pi / 180)
    cosine, sine, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    # Source position of each output pixel, in coordinates that run from -1 to 1 along each side.
    theta = torch.stack([cosine, -sine * height / width, zero, sine * width / height, cosine, zero])
    grid = F.affine_grid(theta.T.reshape(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, "bilinear", "zeros", align_corners=False)
