"""Split networks by name, and the decoder that attacks them."""

from collections.abc import Callable, Sequence

from cemlib.models.decoder import Decoder
from cemlib.models.small import small
from cemlib.models.split import Shape, SplitModel
from cemlib.models.vgg import vgg11

MODELS: dict[str, Callable[[Shape], SplitModel]] = {"small": small, "vgg11": vgg11}

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
) -> SplitModel:
    """Build a split network by name; its weights come from torch's global random state.

    Args:
        name: Key of `MODELS`.
        num_classes: Logits of the head.
        image_size: Side of the square images.
        cut: Layer entries on the client; a convolution block and a pool are one entry each.
        sparse_coding: Whether a sparse-coding layer stands before the sigmoid.
        mean: Mean of each colour channel, in [0, 1]; as many as the images have channels.
        std: Standard deviation of each colour channel.

    Raises:
        ValueError: if the name is unknown, or the network cannot be cut or fed so.
    """
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r} (known: {', '.join(MODELS)})")
    shape = Shape(num_classes, image_size, cut, len(mean), sparse_coding, mean, std)
    return MODELS[name](shape)
