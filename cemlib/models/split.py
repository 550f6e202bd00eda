"""A classifier cut in two: the client's encoder with its bottleneck, and the server's head."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from cemlib.models.layers import Entry, Normalise, SparseCoding, conv_stack, xavier

BOTTLENECK = 8  # channels released at the cut ("noRELU_C8S1")


@dataclass(frozen=True)
class Shape:
    """What a network must fit: its input, its classes and where it is cut."""

    num_classes: int
    image_size: int
    cut: int
    in_channels: int
    sparse_coding: bool
    mean: Sequence[float]
    std: Sequence[float]


class SplitModel(nn.Module):
    """`encoder` maps images (B, C, H, W) in [0, 1] to features, `head` maps features to logits.

    Attributes:
        feature_shape: (channels, height, width) of the features at the cut.
    """

    def __init__(
        self, encoder: nn.Module, head: nn.Module, feature_shape: tuple[int, int, int]
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.feature_shape = encoder, head, feature_shape

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes) without any release noise."""
        logits: Tensor = self.head(self.encoder(images))
        return logits


def split_stack(
    entries: Sequence[Entry], shape: Shape, classifier: nn.Module
) -> tuple[nn.Sequential, nn.Sequential, tuple[int, int, int]]:
    """Cut a stack of convolutions: entries[:cut] and a bottleneck to the client, the rest behind.

    Returns:
        The encoder (normalisation, convolutions, bottleneck, optional sparse coding, sigmoid), the
        head (a convolution back to the cut's width, the other entries, `classifier`) and
        the shape of the features.

    Raises:
        ValueError: if the cut lies outside the stack or the image does not survive its pools.
    """
    if not 1 <= shape.cut < len(entries):
        raise ValueError(f"cut: must lie between 1 and {len(entries) - 1}, found {shape.cut}")
    pools = entries.count("M")
    if shape.image_size % 2**pools:
        raise ValueError(
            f"image_size: this network halves images {pools} times, so the size must be a multiple"
            f" of {2**pools}, found {shape.image_size}"
        )
    client, server = entries[: shape.cut], entries[shape.cut :]
    width = [entry for entry in client if isinstance(entry, int)][-1]
    side = shape.image_size // 2 ** client.count("M")
    features = (BOTTLENECK, side, side)
    encoder = _client(client, width, shape, features)
    back = nn.Conv2d(BOTTLENECK, width, 3, padding=1)
    head = nn.Sequential(back, conv_stack(server, width), classifier)
    return encoder, head, features


def _client(
    entries: Sequence[Entry], width: int, shape: Shape, features: tuple[int, int, int]
) -> nn.Sequential:
    layers: list[nn.Module] = [
        Normalise(shape.mean, shape.std),
        conv_stack(entries, shape.in_channels),
        nn.Conv2d(width, BOTTLENECK, 3, padding=1),
    ]
    if shape.sparse_coding:
        layers.append(SparseCoding(features[0] * features[1] * features[2]))
    encoder = nn.Sequential(*layers, nn.Sigmoid())
    xavier(encoder)
    return encoder
