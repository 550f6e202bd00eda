"""VGG11 and a small network: stacks of convolutions with a bottleneck and a sigmoid at the cut.

Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015,
with batch normalisation ("vgg11_bn_sgm"); the bottleneck as in Xia et al., CVPR 2025. The small
network is of the same kind, for small images and quick studies.
"""

from collections.abc import Sequence

from torch import nn

from cemlib.models.layers import ConvStack, Entry
from cemlib.models.split import Shape, SplitModel, check_fits, client_encoder

VGG11: tuple[Entry, ...] = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")
SMALL: tuple[Entry, ...] = (16, "M", 32, "M", 64, "M")


def vgg11(shape: Shape) -> SplitModel:
    """Build VGG11-BN for images whose side is a multiple of 32.

    At 32x32, 3 channels, 10 classes and cut 4: client 85,256 parameters (347,400 with sparse
    coding), server 9,689,738, features 8x8x8.
    """
    side, width = shape.image_size // 32, _scaled(512, shape.server_width)
    classifier = nn.Sequential(
        nn.AvgPool2d(side) if side > 1 else nn.Identity(),
        nn.Flatten(),
        nn.Dropout(shape.dropout),
        nn.Linear(width, 512),
        nn.ReLU(),
        nn.Dropout(shape.dropout),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, shape.num_classes),
    )
    return split_stack(VGG11, shape, classifier)


def small(shape: Shape) -> SplitModel:
    """Build three convolution blocks for images whose side is a multiple of 8.

    At 16x16 the features are 8x8x8 (cut 3) or 8x4x4 (cut 4).
    """
    side, width = shape.image_size // 8, _scaled(64, shape.server_width)
    classifier = nn.Sequential(
        nn.Flatten(),
        nn.Dropout(shape.dropout),
        nn.Linear(width * side * side, 128),
        nn.ReLU(),
        nn.Linear(128, shape.num_classes),
    )
    return split_stack(SMALL, shape, classifier)


def split_stack(entries: Sequence[Entry], shape: Shape, classifier: nn.Module) -> SplitModel:
    """Cut a stack of convolutions: entries[:cut] and a bottleneck are the client's.

    The head first returns to the width that `entries` has at the cut, whatever the client's, and
    ends in `classifier`.

    Raises:
        ValueError: if the cut, the size of the images or the client's widths do not fit.
    """
    check_fits(shape, len(entries), entries.count("M"))
    client = _with_factor(entries[: shape.cut], shape.client_width)
    if shape.client_widths is not None:
        client = _narrowed(client, shape.client_widths)
    body = ConvStack(client, len(shape.mean))
    encoder = client_encoder(body, _widths(client)[-1], shape, client.count("M"))
    width = _scaled(_widths(entries[: shape.cut])[-1], shape.server_width)
    server = _with_factor(entries[shape.cut :], shape.server_width)
    back = nn.Conv2d(shape.bottleneck, width, 3, padding=1)  # drawn before the server's weights
    head = nn.Sequential(back, ConvStack(server, width), classifier)
    return SplitModel(encoder, head)


def _scaled(width: int, factor: float) -> int:
    return max(1, round(factor * width))


def _with_factor(entries: Sequence[Entry], factor: float) -> list[Entry]:
    return [_scaled(entry, factor) if isinstance(entry, int) else entry for entry in entries]


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
