"""ResNet-20 for small images, with a bottleneck and a sigmoid at the cut.

He, Zhang, Ren and Sun, "Deep residual learning for image recognition", CVPR 2016, section 4.2.
Shortcuts are the paper's option A, without parameters: every second pixel where the stride is 2,
and zeros for the new channels.

    block(x) = relu( BN(W2 relu(BN(W1 x))) + shortcut(x) )

Option A ties channels to their places in the sum, so this client cannot be pruned by channels.
"""

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.models.split import Shape, SplitModel, check_fits, client_encoder

# Channels and stride of every entry: the stem, then nine blocks.
ENTRIES = (*[(16, 1)] * 4, (32, 2), *[(32, 1)] * 2, (64, 2), *[(64, 1)] * 2)


class BasicBlock(nn.Module):
    """Conv3x3-BN-ReLU-Conv3x3-BN plus the shortcut, followed by ReLU."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.stride, self.added = stride, out_channels - in_channels
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, in_channels, H, W) to (B, out_channels, H / stride, W / stride)."""
        thinned = x[:, :, :: self.stride, :: self.stride]
        shortcut = F.pad(thinned, (0, 0, 0, 0, 0, self.added))
        return F.relu(self.body(x) + shortcut)


def resnet20(shape: Shape) -> SplitModel:
    """Build a ResNet-20 for images whose side is a multiple of 4.

    `cut` counts the stem (1) and the blocks (2 to 9); the last block stays on the server. At cuts 1
    to 4 the features have the side of the images, at 5 to 7 half of it, and at 8 and 9 a quarter.
    With 3 channels and 10 classes the network has 269,722 parameters; a cut at width w adds the
    bottleneck's 72 w + 8 and the server's 73 w (279,010 in all at cut 8).

    Raises:
        ValueError: if the cut or the images do not fit, or a width or `dropout` is set.
    """
    strides = [stride for _, stride in ENTRIES]
    check_fits(shape, len(ENTRIES), strides.count(2))
    if shape.client_widths is not None:
        raise ValueError("client_widths: the shortcuts of resnet20 fix its widths; must be null")
    for option in ("dropout", "client_width", "server_width"):
        found, default = getattr(shape, option), getattr(Shape, option)
        if found != default:
            raise ValueError(
                f"{option}: resnet20 has none, so it must be left at {default}, found {found}"
            )
    width, halvings = ENTRIES[shape.cut - 1][0], strides[: shape.cut].count(2)
    layers = _layers(len(shape.mean))
    encoder = client_encoder(nn.Sequential(*layers[: shape.cut]), width, shape, halvings)
    classifier = nn.Linear(ENTRIES[-1][0], shape.num_classes)
    back = nn.Conv2d(shape.bottleneck, width, 3, padding=1)
    server = (back, *layers[shape.cut :], nn.AdaptiveAvgPool2d(1), nn.Flatten(), classifier)
    return SplitModel(encoder, nn.Sequential(*server))


def _layers(in_channels: int) -> list[nn.Module]:
    width = ENTRIES[0][0]
    convolution = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
    stem = nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU())
    steps = pairwise(ENTRIES)
    return [stem, *(BasicBlock(before, after, stride) for (before, _), (after, stride) in steps)]
