"""A classifier cut in two: the client's encoder with its bottleneck, and the server's head."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from cemlib.models.layers import ConvStack, Entry, Normalise, SparseCoding, xavier

BOTTLENECK = 8  # channels released at the cut ("noRELU_C8S1")


@dataclass(frozen=True)
class Shape:
    """What a network must fit: its input, its classes and where it is cut.

    `client_widths` are the output channels of the client's convolutions before the bottleneck where
    they are not the network's own (a pruned client); None for the network's own.
    """

    num_classes: int
    image_size: int
    cut: int
    in_channels: int
    sparse_coding: bool
    mean: Sequence[float]
    std: Sequence[float]
    client_widths: Sequence[int] | None = None


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


def split_stack(entries: Sequence[Entry], shape: Shape, classifier: nn.Module) -> SplitModel:
    """Cut a stack of convolutions: entries[:cut] and a bottleneck to the client, the rest behind.

    The head leads the features back to the width that the cut has in `entries`, whatever
    `shape.client_widths` makes of the client, and ends in `classifier`.

    Raises:
        ValueError: if the cut lies outside the stack, the image does not survive its pools, or the
            client's widths do not fit it.
    """
    check_fits(shape, len(entries), entries.count("M"))
    client, server = entries[: shape.cut], entries[shape.cut :]
    kept = client if shape.client_widths is None else _narrowed(client, shape.client_widths)
    body = ConvStack(kept, shape.in_channels)
    encoder = client_encoder(body, _widths(kept)[-1], shape, client.count("M"))
    width = _widths(client)[-1]
    back = back_convolution(width)
    head = nn.Sequential(back, ConvStack(server, width), classifier)
    return SplitModel(encoder, head, feature_shape(shape, client.count("M")))


def check_fits(shape: Shape, entries: int, halvings: int) -> None:
    """Refuse a cut outside a network's entries, and images that it cannot halve so often.

    Raises:
        ValueError: naming the option, what was found and what is allowed.
    """
    if not 1 <= shape.cut < entries:
        raise ValueError(f"cut: must lie between 1 and {entries - 1}, found {shape.cut}")
    if shape.image_size % 2**halvings:
        raise ValueError(
            f"image_size: this network halves images {halvings} times, so the size must be a"
            f" multiple of {2**halvings}, found {shape.image_size}"
        )


def client_encoder(body: nn.Module, width: int, shape: Shape, halvings: int) -> nn.Sequential:
    """Normalisation, `body`, bottleneck, optional sparse coding and sigmoid, Xavier-uniform.

    Args:
        body: Maps images (B, C, H, W) to (B, width, H / 2**halvings, W / 2**halvings).
        width: Channels that enter the bottleneck.
        shape: What the network must fit.
        halvings: Times the client halves the side of the images.
    """
    bottleneck = nn.Conv2d(width, BOTTLENECK, 3, padding=1)
    layers: list[nn.Module] = [Normalise(shape.mean, shape.std), body, bottleneck]
    if shape.sparse_coding:
        channels, height, breadth = feature_shape(shape, halvings)
        layers.append(SparseCoding(channels * height * breadth))
    encoder = nn.Sequential(*layers, nn.Sigmoid())
    xavier(encoder)
    return encoder


def back_convolution(width: int) -> nn.Conv2d:
    """The server's first layer, from the features (B, 8, h, w) to the cut's width."""
    return nn.Conv2d(BOTTLENECK, width, 3, padding=1)


def feature_shape(shape: Shape, halvings: int) -> tuple[int, int, int]:
    """(channels, height, width) at the cut of a client that halves images `halvings` times."""
    side = shape.image_size // 2**halvings
    return BOTTLENECK, side, side


def _narrowed(entries: Sequence[Entry], widths: Sequence[int]) -> list[Entry]:
    most = _widths(entries)
    if len(widths) != len(most) or not all(
        1 <= width <= limit for width, limit in zip(widths, most, strict=True)
    ):
        raise ValueError(
            f"client_widths: this client has {len(most)} convolutions of at least 1 and at most"
            f" {', '.join(map(str, most))} channels, found {list(widths)}"
        )
    left = iter(widths)
    return [next(left) if isinstance(entry, int) else entry for entry in entries]


def _widths(entries: Sequence[Entry]) -> list[int]:
    return [entry for entry in entries if isinstance(entry, int)]
