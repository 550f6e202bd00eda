"""The residual decoder that inverts features to images ("res_normN8C64").

Blocks of batch normalisation, ReLU and convolution in pre-activation order (He et al., "Identity
mappings in deep residual networks", ECCV 2016), as in the published attack on split inference.
"""

from torch import Tensor, nn


class ResBlock(nn.Module):
    """BN-ReLU-Conv3x3-BN-ReLU-Conv3x3 plus the input; no activation after the sum.

    Where the channels change, the input passes a 1x1 convolution without bias and a BN.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(in_channels),
            nn.ReLU(),
            nn.Conv2d(in_channels, out_channels, 3, padding=1),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, 3, padding=1),
        )
        self.shortcut: nn.Module = nn.Identity()
        if in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(B, in_channels, H, W) to (B, out_channels, H, W)."""
        out: Tensor = self.body(x) + self.shortcut(x)
        return out


class Decoder(nn.Module):
    """Features (B, in_channels, h, w) to images (B, C, H, W) in (0, 1).

    Args:
        in_channels: Channels of the features.
        image_shape: (C, H, W) of the images.
        blocks: Residual blocks of constant width.
        width: Their channels.
        doublings: Times the side doubles (2 for a cut behind two pools); h 2**doublings is at
            least H. What it is larger is left off at the right and at the bottom, since a layer
            with a stride begins at the top left.
    """

    def __init__(
        self,
        in_channels: int,
        image_shape: tuple[int, int, int],
        blocks: int = 8,
        width: int = 64,
        doublings: int = 2,
    ) -> None:
        super().__init__()
        self.size = image_shape[1:]
        body: list[nn.Module] = [ResBlock(in_channels, width), nn.ReLU()]
        body += [ResBlock(width, width) for _ in range(blocks)]
        for _ in range(doublings):
            body += [_doubling(width), nn.BatchNorm2d(width), nn.ReLU()]
        self.layers = nn.Sequential(*body, ResBlock(width, image_shape[0]), nn.Sigmoid())

    def forward(self, features: Tensor) -> Tensor:
        """(B, in_channels, h, w) to (B, C, H, W) in (0, 1)."""
        images: Tensor = self.layers(features)
        height, width = self.size
        return images if images.shape[2:] == self.size else images[..., :height, :width]


def _doubling(width: int) -> nn.Module:
    return nn.ConvTranspose2d(width, width, 3, stride=2, padding=1, output_padding=1)
