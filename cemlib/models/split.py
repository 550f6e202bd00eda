"""A classifier cut in two: the client's encoder with its bottleneck, and the server's head."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor, nn

from cemlib.models.layers import Normalise, SparseCoding, modes_kept, xavier

Dimensions = tuple[int, int, int]


@dataclass(frozen=True)
class Shape:
    """The input, the output and the cut of a split network.

    Attributes:
        num_classes: Number of logits.
        image_size: Side of the square images.
        cut: Number of convolutions, pools and residual blocks on the client.
        sparse_coding: Whether there is a sparse-coding layer before the sigmoid.
        mean: Mean of each colour channel, in [0, 1]; one per channel of the images.
        std: Standard deviation of each colour channel.
        client_widths: Output channels of a pruned client's convolutions, else None.
        dropout: Dropout probability in the head of vgg11 and small.
        bottleneck: Number of channels that the client releases.
        client_width: Factor on the widths of the client's convolutions in vgg11 and small.
        server_width: Factor on those of the server's convolutions.
    """

    num_classes: int
    image_size: int
    cut: int
    sparse_coding: bool = False
    mean: Sequence[float] = (0.5, 0.5, 0.5)
    std: Sequence[float] = (0.5, 0.5, 0.5)
    client_widths: Sequence[int] | None = None
    dropout: float = 0.5
    bottleneck: int = 8  # as in the published "noRELU_C8S1"
    client_width: float = 1.0
    server_width: float = 1.0


class SplitModel(nn.Module):
    """A classifier in two halves, `head(encoder(images))`.

    The client's encoder maps images (B, C, H, W) in [0, 1] to features (B, c, h, w), which the
    server's head maps to logits. Your own halves may have vectors (B, D) between them, which
    `measured` turns into maps of one pixel. They must not change their input in place, and must
    accept any memory order (`flatten`, not `view`). `feature_shape` is (c, h, w), or None if not
    known yet.
    """

    def __init__(
        self, encoder: nn.Module, head: nn.Module, feature_shape: Dimensions | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.head, self._feature_shape = encoder, head, feature_shape

    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        cut: str,
        *,
        image_shape: Dimensions | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> "SplitModel":
        """Split any classifier after one of its submodules.

        Without normalisation `head(encoder(x))` is `module(x)`, for contiguous x bit for bit. The
        halves share the module's parameters, without overlap and without submodules that the
        forward pass never calls.

        Args:
            module: Maps images (B, C, H, W) to logits (B, classes).
            cut: Name of the last submodule on the client, such as `layer1.0`, one of
                `cemlib.models.cutting.possible_cuts`.
            image_shape: (C, H, W) of the images; without it, call `measured` later.
            mean: Mean of each colour channel, by which the client normalises the images; None if
                the module takes images in [0, 1].
            std: Standard deviation of each colour channel, with `mean`.

        Raises:
            cemlib.models.graphs.CutError: a ValueError, if the module cannot be split there.
            ValueError: if only one of mean and std is given, or the features are neither maps nor
                vectors.
        """
        from cemlib.models.cutting import halves

        if (mean is None) != (std is None):
            raise ValueError("mean, std: give both or neither")
        model = cls(*halves(module, cut))
        if mean is not None and std is not None:
            model.encoder = nn.Sequential(Normalise(mean, std).to(device_of(module)), model.encoder)
        return model if image_shape is None else model.measured(image_shape)

    @property
    def feature_shape(self) -> Dimensions:
        """Return (c, h, w) of the features at the cut; raise ValueError if it is not known yet."""
        if self._feature_shape is None:
            raise ValueError("feature_shape: not known yet; call `measured` with the images' shape")
        return self._feature_shape

    @property
    def coding(self) -> tuple[nn.Module, SparseCoding] | None:
        """Return the layers before the encoder's sparse coding, and the coding; None without one.

        The encoder must be a `Sequential` that ends with the coding and a sigmoid.
        """
        match [*self.encoder.children()] if isinstance(self.encoder, nn.Sequential) else []:
            case [*before, SparseCoding() as coding, nn.Sigmoid()]:
                return nn.Sequential(*before), coding
        return None

    def measured(self, image_shape: Dimensions) -> "SplitModel":
        """Return the network with the `feature_shape` for images (C, H, W), sharing weights.

        Vectors (B, D) become maps (B, D, 1, 1).

        Raises:
            ValueError: if the features are neither maps nor vectors, or the encoder does not accept
                the images.
        """
        shape = _probed(self.encoder, image_shape)
        if shape == self._feature_shape:
            return self
        match shape:
            case (channels, height, width):
                return SplitModel(self.encoder, self.head, (channels, height, width))
            case (size,):
                encoder = nn.Sequential(self.encoder, nn.Unflatten(1, (size, 1, 1)))
                head = nn.Sequential(nn.Flatten(1), self.head)
                return SplitModel(encoder, head, (size, 1, 1))
        raise ValueError(
            f"cut: features of shape {shape} are neither maps (c, h, w) nor vectors (D,);"
            " cut elsewhere, or reshape them in an encoder and a head of your own"
        )

    def narrowed(self, channels: int, *, sparse_coding: bool = False) -> "SplitModel":
        """Return the network with the published bottleneck at the cut, sharing the other weights.

        The client gets a convolution to `channels` channels with Xavier-uniform weights, a
        sparse-coding layer if that is set, and a sigmoid; the server gets a convolution back.

        Raises:
            ValueError: if the `feature_shape` is not known yet, or `channels` is below 1.
        """
        if channels < 1:
            raise ValueError(f"channels: must be at least 1, found {channels}")
        before, height, width = self.feature_shape
        features = (channels, height, width)
        added = nn.Sequential(*_bottleneck(before, features, sparse_coding))
        xavier(added)
        encoder = nn.Sequential(self.encoder, *added)
        head = nn.Sequential(nn.Conv2d(channels, before, 3, padding=1), self.head)
        return SplitModel(encoder, head, features).to(device_of(self))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) without any release noise."""
        logits: Tensor = self.head(self.encoder(images))
        return logits


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a network's weights or buffers; the CPU if it has none."""
    tensors = chain(model.parameters(), model.buffers())
    return next((each.device for each in tensors), torch.device("cpu"))


def check_fits(shape: Shape, entries: int, halvings: int) -> None:
    """Raise a ValueError if a network with this many layers and halvings cannot have this shape."""
    if not 1 <= shape.cut < entries:
        raise ValueError(f"cut: must lie between 1 and {entries - 1}, found {shape.cut}")
    if shape.image_size % 2**halvings:
        raise ValueError(
            f"image_size: this network halves images {halvings} times, so the size must be a"
            f" multiple of {2**halvings}, found {shape.image_size}"
        )


def client_encoder(body: nn.Module, width: int, shape: Shape, halvings: int) -> nn.Sequential:
    """Build the client: normalisation, `body`, bottleneck, optional sparse coding and sigmoid.

    `body` maps images (B, C, H, W) to (B, width, H / 2**halvings, W / 2**halvings).
    """
    side = shape.image_size // 2**halvings
    added = _bottleneck(width, (shape.bottleneck, side, side), shape.sparse_coding)
    encoder = nn.Sequential(Normalise(shape.mean, shape.std), body, *added)
    xavier(encoder)
    return encoder


def _bottleneck(width: int, features: Dimensions, sparse_coding: bool) -> list[nn.Module]:
    convolution = nn.Conv2d(width, features[0], 3, padding=1)
    coding = [SparseCoding(math.prod(features))] if sparse_coding else []
    return [convolution, *coding, nn.Sigmoid()]


def _probed(encoder: nn.Module, image_shape: Dimensions) -> tuple[int, ...]:
    """Return the shape of the features of one image; the encoder's modes do not change."""
    try:
        with modes_kept(encoder), torch.no_grad():
            features = encoder.eval()(torch.zeros(1, *image_shape, device=device_of(encoder)))
    except Exception as error:  # the network's own code may raise anything
        raise ValueError(
            f"cut: the client does not accept images of shape {image_shape} alone ({error})"
        ) from error
    if not isinstance(features, Tensor):
        raise ValueError(
            f"cut: the client returns a {type(features).__name__}, not a tensor; cut elsewhere, or"
            " give both halves yourself: SplitModel(encoder, head)"
        )
    if features.ndim and len(features) != 1:
        raise ValueError(
            f"cut: the client returns {len(features)} rows for one image; cut where it returns one"
        )
    return tuple(features.shape[1:])
