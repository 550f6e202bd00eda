"""The base class of training penalties."""

import torch
from torch import Tensor, nn

from cemlib.config.base import Section
from cemlib.numerics.optim import Optimiser

Shape = tuple[int, int, int]


class Penalty(nn.Module):
    """A term of the training loss that reduces the information about images in releases.

    `settings` is its section of the configuration. The shapes of images and features are (C, H, W)
    and (c, h, w).
    """

    settings: Section
    optimiser: Optimiser | None = None
    """The optimiser of the penalty's own parameters; None for a penalty without any."""
    differentiates_images = False
    """Whether the features have to be differentiable in the images."""

    def __init__(self, settings: Section, *, image_shape: Shape, feature_shape: Shape) -> None:
        super().__init__()
        self.settings, self.image_shape = settings, image_shape
        self.feature_shape = feature_shape

    def forward(self, images: Tensor, labels: Tensor, features: Tensor, released: Tensor) -> Tensor:
        """Return the weighted scalar to add to the training loss.

        The images (B, C, H, W) are floats in [0, 1], the labels (B,). The clean features
        (B, c, h, w) and their release, of the same shape, are attached to the encoder's graph. Half
        precision is computed in float32, autocast or not.
        """
        half = (torch.float16, torch.bfloat16)
        full = (x.float() if x.dtype in half else x for x in (images, labels, features, released))
        with torch.autocast(images.device.type, enabled=False):
            return self.penalty(*full)

    def penalty(self, images: Tensor, labels: Tensor, features: Tensor, released: Tensor) -> Tensor:
        """Return the penalty in full precision; every penalty implements it."""
        raise NotImplementedError

    def step(self) -> None:
        """Update the penalty's own parameters, after the backward pass of the loss."""
