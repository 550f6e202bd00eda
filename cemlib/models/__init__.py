"""Split networks by name, and the decoder that attacks them."""

from collections.abc import Callable, Sequence

from cemlib.models.decoder import Decoder
from cemlib.models.resnet import resnet20
from cemlib.models.split import Shape, SplitModel
from cemlib.models.stacks import small, vgg11

MODELS: dict[str, Callable[[Shape], SplitModel]] = {
    "small": small,
    "vgg11": vgg11,
    "resnet20": resnet20,
}
"""The function that builds the network of a name."""

__all__ = ["MODELS", "Decoder", "SplitModel", "build"]


def build(
    name: str,
    *,
    num_classes: int,
    image_size: int,
    cut: int,
    sparse_coding: bool = False,
    mean: Sequence[float] = (0.5, 0.5, 0.5),
    std: Sequence[float] = (0.5, 0.5, 0.5),
    client_widths: Sequence[int] | None = None,
    dropout: float = 0.5,
) -> SplitModel:
    """Build a split network by name; its weights come from torch's global random state.

    Args:
        name: Key of `MODELS`.
        num_classes: Logits of the head.
        image_size: Side of the square images.
        cut: Layer entries on the client; a convolution, a pool and a residual block are one each.
        sparse_coding: Whether a sparse-coding layer stands before the sigmoid.
        mean: Mean of each colour channel, in [0, 1]; as many as the images have channels.
        std: Standard deviation of each colour channel.
        client_widths: Output channels of the client's convolutions before the bottleneck, in order,
            where pruning left fewer than the network's own; features and head stay the same.
        dropout: Probability with which the head of vgg11 and small drops a hidden unit in training.

    Raises:
        ValueError: if the name is unknown, or the network cannot be cut, fed or narrowed so.

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
    shape = Shape(
        num_classes, image_size, cut, len(mean), sparse_coding, mean, std, client_widths, dropout
    )
    return MODELS[name](shape)
