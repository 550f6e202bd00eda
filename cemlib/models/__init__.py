"""Split networks by name, and the decoder of the attacks."""

from collections.abc import Callable
from typing import Any

from cemlib.models.decoder import Decoder
from cemlib.models.resnet import resnet20
from cemlib.models.split import Shape, SplitModel
from cemlib.models.stacks import small, vgg11

MODELS: dict[str, Callable[[Shape], SplitModel]] = {
    "small": small,
    "vgg11": vgg11,
    "resnet20": resnet20,
}
"""The function that builds each network."""

__all__ = ["MODELS", "Decoder", "SplitModel", "build"]


def build(name: str, **options: Any) -> SplitModel:
    """Build a split network of `MODELS`, with weights from torch's global random state.

    `options` are the attributes of `cemlib.models.split.Shape`.

    Raises:
        ValueError: if the name is unknown, or the network does not allow these values.
        TypeError: if an option is missing or unknown.

    Example:
        >>> import torch
        >>> model = build("small", num_classes=10, image_size=16, cut=3)
        >>> model.feature_shape
        (8, 8, 8)
        >>> model.encoder(torch.rand(2, 3, 16, 16)).shape
        torch.Size([2, 8, 8, 8])
        >>> model(torch.rand(2, 3, 16, 16)).shape
        torch.Size([2, 10])
    """
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r} (known: {', '.join(MODELS)})")
    shape = Shape(**options)
    return MODELS[name](shape).measured((len(shape.mean), shape.image_size, shape.image_size))
