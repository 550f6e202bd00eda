"""Decoders that invert features to images.

`Decoder` is that of the published attack on split inference ("res_normN8C64"): blocks of batch
normalisation, ReLU and convolution in pre-activation order (He et al., "Identity mappings in deep
residual networks", ECCV 2016). `CorrectedDecoder` adds such a network to a linear reconstruction.
ReLUs are in place where their input is needed nowhere else, which saves memory traffic on a CPU.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.models.uncoding import Uncoding

LARGEST = 2**25  # weights of a linear reconstruction; 64x64 pixels after two pools need 2**24.6
EDGE = 1e-3  # linear reconstructions are clipped to [EDGE, 1 - EDGE], a squared error of 1e-6


class ResBlock(nn.Module):
    """BN-ReLU-Conv3x3-BN-ReLU-Conv3x3 plus the input, without activation after the sum.

    If the number of channels changes, the input goes through a 1x1 convolution without bias and BN.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(in_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(in_channels, out_channels, 3, padding=1),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, 3, padding=1),
        )
        self.shortcut: nn.Module = nn.Identity()
        if in_channels != out_channels:
            self.shortcut = _projection(in_channels, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, in_channels, H, W) to (B, out_channels, H, W)."""
        out: Tensor = self.body(x) + self.shortcut(x)
        return out


class ResidualNetwork(nn.Module):
    """Maps features (B, in_channels, h, w) to unbounded maps (B, answers, H, W).

    After `blocks` residual blocks of `width` channels the side doubles `doublings` times (2 for a
    cut after two pools). The last block has `hints` more input channels, of the size of the images.
    `image_shape` is (C, H, W), and `answers` is C by default. Where h 2**doublings exceeds H by
    less than 2**doublings, rows and columns at the bottom and the right are cut off, since a layer
    with a stride begins at the top left; where it exceeds H by more, as behind layers without
    padding, the maps are interpolated.
    """

    rectified: ClassVar[bool] = False  # whether a ReLU follows each block of constant width

    def __init__(
        self,
        in_channels: int,
        image_shape: tuple[int, int, int],
        blocks: int = 8,
        width: int = 64,
        doublings: int = 2,
        *,
        hints: int = 0,
        answers: int | None = None,
    ) -> None:
        super().__init__()
        self.image_shape, self.scale = image_shape, 2**doublings
        body: list[nn.Module] = [ResBlock(in_channels, width), nn.ReLU(inplace=True)]
        for _ in range(blocks):
            body += [ResBlock(width, width), *([nn.ReLU(inplace=True)] if self.rectified else [])]
        for _ in range(doublings):
            doubling = nn.ConvTranspose2d(width, width, 3, stride=2, padding=1, output_padding=1)
            body += [doubling, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*body)
        self.last = ResBlock(width + hints, answers or image_shape[0])
        make_trainable(self)

    def forward(self, features: Tensor, hint: Tensor | None = None) -> Tensor:
        """Map (B, in_channels, h, w), and a hint (B, hints, H, W), to (B, answers, H, W)."""
        _, height, width = self.image_shape
        maps: Tensor = self.layers(features)
        if max(maps.shape[2] - height, maps.shape[3] - width) < self.scale:
            maps = maps[..., :height, :width]  # layers with a stride round up, from the top left
        else:  # layers without padding
            maps = F.interpolate(maps, (height, width), mode="bilinear", align_corners=False)
        if hint is not None:
            maps = torch.cat([maps, hint.to(maps.dtype, memory_format=torch.channels_last)], 1)
        found: Tensor = self.last(maps)
        return found


def make_trainable(module: nn.Module) -> None:
    """Let all parameters be trained but the biases of transposed convolutions.

    The normalisation after them removes these, and their gradient is slow to compute on a CPU.
    """
    module.requires_grad_(True)
    for layer in module.modules():
        if isinstance(layer, nn.ConvTranspose2d):
            layer.bias.requires_grad_(False)  # type: ignore[union-attr]


class Decoder(ResidualNetwork):
    """The published decoder, which maps features (B, c, h, w) to images (B, C, H, W) in (0, 1)."""

    rectified = True

    def forward(self, features: Tensor, hint: Tensor | None = None) -> Tensor:
        """Map (B, c, h, w) to (B, C, H, W) in (0, 1)."""
        return super().forward(features, hint).sigmoid()


@dataclass(frozen=True)
class LinearEstimate:
    """Linear estimates of images and of clean features from a release."""

    weights: Tensor  # W, (D, P)
    mean: Tensor  # m, (D,)
    intercept: Tensor  # b, (P,)
    filter: Tensor  # F, (D, D)


class CorrectedDecoder(nn.Module):
    """A linear reconstruction of images from releases z~, its correction, and a second answer.

        l = logit(W^T (z~ - m) + b)          (a, i) = N(m + F (z~ - m), l / 4)
        x = share s(l + 4 a) + (1 - share) s(4 i)

    with the logistic function s, its inverse logit of arguments clipped to [`EDGE`, 1 - `EDGE`],
    and 4, the slope of logit in the middle, so that N is in units of pixels there. The last block
    of the `ResidualNetwork` N sees the linear reconstruction. N starts at 0: an untrained decoder
    with a share of 1 is the linear reconstruction. W, m, b and F are buffers from
    `cemlib.attacks.wiener`, and the share is one from `cemlib.attacks.decoder`. If W would have
    more than `LARGEST` elements, W and F are empty: N gets the release itself, and the mean image
    replaces the linear reconstruction.

    Args:
        feature_shape, image_shape: (c, h, w) and (C, H, W).
        blocks, width, doublings: As for N.
        class_maps: Number of trailing channels that encode the class. W and F use them; N gets them
            only if W and F are empty, because they would slow its training.
        masked: Whether N gets the release itself, too, because features are missing at random: a
            linear estimate smears the zeros over all features.

    Attributes:
        uncoding: Computes the most probable input of a sparse coding, which then takes the place of
            z~; None unless releases are the output of one plus noise.
    """

    weights: Tensor
    mean: Tensor
    intercept: Tensor
    filter: Tensor
    share: Tensor
    uncoding: Uncoding | None

    def __init__(
        self,
        feature_shape: tuple[int, ...],
        image_shape: tuple[int, int, int],
        blocks: int,
        width: int,
        doublings: int,
        class_maps: int = 0,
        *,
        masked: bool = False,
    ) -> None:
        super().__init__()
        self.image_shape = image_shape
        dim, pixels = math.prod(feature_shape), math.prod(image_shape)
        read = dim if dim * pixels <= LARGEST else 0
        self.masked = masked and read > 0  # otherwise N gets the release anyway
        self.seen = feature_shape[0] - (class_maps if read else 0)
        shape = self.seen * (1 + self.masked), image_shape, blocks, width, doublings
        self.network = ResidualNetwork(*shape, hints=image_shape[0], answers=2 * image_shape[0])
        _start_at_zero(self.network.last)
        self.register_buffer("weights", torch.zeros(read, pixels))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("intercept", torch.zeros(pixels))
        self.register_buffer("filter", torch.zeros(read, read))
        self.register_buffer("share", torch.ones(()))
        self.register_module("uncoding", None)

    def start_at(self, estimate: LinearEstimate) -> None:
        """Set W, m, b and F."""
        for name, values in vars(estimate).items():
            getattr(self, name).copy_(values)

    def forward(self, released: Tensor) -> Tensor:
        """Map (B, c, h, w) to (B, C, H, W) in (0, 1)."""
        corrected, own = self.answers(released)
        return own.lerp(corrected, self.share)

    def answers(self, released: Tensor) -> tuple[Tensor, Tensor]:
        """Return the corrected linear reconstruction and the network's own, (B, C, H, W) each."""
        with torch.autocast(released.device.type, enabled=False):  # half precision would spoil W
            linear, filtered = self._linear(released)
            logits = linear.clamp(EDGE, 1 - EDGE).logit()
        given = [part[:, : self.seen] for part in (filtered, released)[: 1 + self.masked]]
        features = torch.cat(given, 1).contiguous(memory_format=torch.channels_last)
        correction, own = (4 * self.network(features, logits / 4).float()).chunk(2, 1)
        return (logits + correction).sigmoid(), own.sigmoid()

    def _linear(self, released: Tensor) -> tuple[Tensor, Tensor]:
        """Return the linear estimates of the images, and what the network sees."""
        if self.weights.numel() == 0:
            return self.intercept.expand(len(released), -1).view(-1, *self.image_shape), released
        centred = self.undo_coding(released.flatten(1)) - self.mean
        images = torch.addmm(self.intercept, centred, self.weights)
        features = torch.addmm(self.mean, centred, self.filter.T)
        return images.view(-1, *self.image_shape), features.view_as(released)

    def undo_coding(self, released: Tensor) -> Tensor:
        """Return releases (N, D) with the input of a sparse coding in place of its output."""
        if self.uncoding is None:
            return released
        dim = len(self.uncoding.mean)
        return torch.cat([self.uncoding(released[:, :dim]), released[:, dim:]], 1)


def _start_at_zero(last: ResBlock) -> None:
    """Make a block return 0 for every input, with weights that still get gradients."""
    nn.init.zeros_(last.body[-1].weight)  # type: ignore[arg-type]
    nn.init.zeros_(last.body[-1].bias)  # type: ignore[arg-type]
    if isinstance(last.shortcut, nn.Identity):  # it would return the input
        channels: int = last.body[-1].out_channels  # type: ignore[assignment]
        last.shortcut = _projection(channels, channels)
    assert isinstance(last.shortcut, nn.Sequential)
    nn.init.zeros_(last.shortcut[1].weight)  # type: ignore[arg-type]


def _projection(in_channels: int, out_channels: int) -> nn.Module:
    convolution = nn.Conv2d(in_channels, out_channels, 1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out_channels))
