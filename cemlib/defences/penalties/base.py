"""What every training penalty has in common."""

import torch
from torch import Tensor, nn

from cemlib.config.base import Named
from cemlib.numerics.optim import Optimiser

Shape = tuple[int, int, int]


class Penalty(nn.Module):
    """A term of the training loss that makes the released features tell less about the image.

    Args:
        settings: its section of the configuration, which says what each option means.
        image_shape: (C, H, W) of the images.
        feature_shape: (c, h, w) of the features.
    """

    settings: Named
    optimiser: Optimiser | None = None
    """Updates the penalty's own parameters, which belong to no other optimiser; kept in checkpoints
    with them. None where it has none."""

    def __init__(self, settings: Named, *, image_shape: Shape, feature_shape: Shape) -> None:
        super().__init__()
        self.settings, self.image_shape = settings, image_shape
        self.feature_shape = feature_shape

    def forward(self, images: Tensor, features: Tensor, released: Tensor) -> Tensor:
        """Return the scalar to add to the training loss, its weight included.

        Args:
            images: (B, C, H, W), floating point in [0, 1].
            features: clean features z, (B, c, h, w), attached to the encoder's graph.
            released: what the channel made of them, of the same shape and attached. Half precision
                is computed in float32, autocast or not.

        Raises:
            ValueError: the shapes do not fit.
        """
        self._check(images, features, released)
        with torch.autocast(images.device.type, enabled=False):
            return self.penalty(_full(images), _full(features), _full(released))

    def penalty(self, images: Tensor, features: Tensor, released: Tensor) -> Tensor:
        """Return the same in full precision; each penalty defines it."""
        raise NotImplementedError

    def step(self) -> None:
        """Update the penalty's own parameters, after the backward pass of the whole loss."""

    def _check(self, images: Tensor, features: Tensor, released: Tensor) -> None:
        if images.shape[1:] != self.image_shape or len(images) == 0:
            raise ValueError(
                f"{type(self).__name__}: images have shape {tuple(images.shape)}, "
                f"expected (B, {', '.join(map(str, self.image_shape))}) with at least one image"
            )
        expected = (len(images), *self.feature_shape)
        if features.shape != expected or released.shape != expected:
            raise ValueError(
                f"{type(self).__name__}: features have shape {tuple(features.shape)} and are "
                f"released as {tuple(released.shape)}, expected {expected} twice"
            )


def _full(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
