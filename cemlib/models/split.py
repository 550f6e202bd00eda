"""A classifier cut in two: the client's encoder with its bottleneck, and the server's head."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cemlib.models.layers import Normalise, SparseCoding, xavier

BOTTLENECK = 8  # channels released at the cut ("noRELU_C8S1")

Dimensions = tuple[int, int, int]


@dataclass(frozen=True)
class Shape:
    """The sizes that a network must fit: its input, its classes and its cut.

    `client_widths` are the output channels of the client's convolutions before the bottleneck where
    they are not the network's own (a pruned client); None for the network's own. `dropout` is the
    probability with which the head drops a hidden unit.
    """

    num_classes: int
    image_size: int
    cut: int
    in_channels: int
    sparse_coding: bool
    mean: Sequence[float]
    std: Sequence[float]
    client_widths: Sequence[int] | None = None
    dropout: float = 0.5


class SplitModel(nn.Module):
    """`encoder` maps images (B, C, H, W) in [0, 1] to features, `head` maps features to logits.

    The features are (B, c, h, w). Halves made by hand may have vectors (B, D) between them, which
    `measured` turns into maps of one pixel; they must not change their input in place, and must
    take it in any order in memory (`flatten`, not `view`).

    Args:
        encoder: The client's half.
        head: The server's half.
        feature_shape: (c, h, w) of the features; None where only the images will tell.
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
        bottleneck: int | None = None,
        sparse_coding: bool = False,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> "SplitModel":
        """Split any classifier behind one of its submodules.

        Without bottleneck and statistics `head(encoder(x))` is `module(x)`, bit for bit. The parts
        share the module's own parameters, each of which lies in one of them: training them trains
        the module. Whatever the forward pass never calls is left out.

        Args:
            module: Maps images (B, C, H, W) to logits (B, classes).
            cut: Name of the last submodule on the client, such as `layer1.0`
                (`cemlib.models.cutting.possible_cuts` lists them).
            image_shape: (C, H, W) of the images; without it, `measured` is to be called later.
            bottleneck: Channels of a convolution and a sigmoid at the cut, and of the convolution
                back at the server's; None for the module's own features. Needs `image_shape`.
            sparse_coding: Whether a sparse-coding layer stands before that sigmoid.
            mean: Mean of each colour channel, by which the client normalises the images; None
                where the module takes images in [0, 1] as they are.
            std: Standard deviation of each colour channel, with `mean`.

        Raises:
            cemlib.models.graphs.CutError: a ValueError; the module cannot be split there (see
                `cutting.halves`).
            ValueError: options that do not go together, or features that are no maps or vectors.
        """
        from cemlib.models.cutting import halves

        _check_options(image_shape, bottleneck, sparse_coding, mean, std)
        model = cls(*halves(module, cut))
        if mean is not None and std is not None:
            model.encoder = nn.Sequential(Normalise(mean, std), model.encoder)
        if image_shape is not None:
            model = model.measured(image_shape)
        return model if bottleneck is None else _narrowed_to(bottleneck, model, sparse_coding)

    @property
    def feature_shape(self) -> Dimensions:
        """Return (c, h, w) of the features at the cut.

        Raises:
            ValueError: it is not known yet.
        """
        if self._feature_shape is None:
            raise ValueError("feature_shape: not known before `measured` saw the images' shape")
        return self._feature_shape

    def measured(self, image_shape: Dimensions) -> "SplitModel":
        """Return the network with known features, its weights shared: itself where they are known.

        Features that are vectors (B, D) are released as maps (B, D, 1, 1).

        Args:
            image_shape: (C, H, W) of the images.

        Raises:
            ValueError: the features are neither maps nor vectors, or the encoder takes no such
                images.
        """
        if self._feature_shape is not None:
            return self
        match shape := _probed(self.encoder, image_shape):
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

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) without any release noise."""
        logits: Tensor = self.head(self.encoder(images))
        return logits


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
    """Build normalisation, `body`, bottleneck, optional sparse coding and sigmoid, Xavier-uniform.

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


def back_convolution(width: int, channels: int = BOTTLENECK) -> nn.Conv2d:
    """Make the server's first layer, from features (B, channels, h, w) to the cut's width."""
    return nn.Conv2d(channels, width, 3, padding=1)


def _narrowed_to(channels: int, model: SplitModel, sparse_coding: bool) -> SplitModel:
    """Put the published bottleneck between the halves of a measured model, Xavier-uniform."""
    width, height, breadth = model.feature_shape
    layers: list[nn.Module] = [nn.Conv2d(width, channels, 3, padding=1)]
    if sparse_coding:
        layers.append(SparseCoding(channels * height * breadth))
    added = nn.Sequential(*layers, nn.Sigmoid())
    xavier(added)
    encoder = nn.Sequential(model.encoder, *added)
    head = nn.Sequential(back_convolution(width, channels), model.head)
    return SplitModel(encoder, head, (channels, height, breadth))


def _check_options(
    image_shape: Dimensions | None,
    bottleneck: int | None,
    sparse_coding: bool,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> None:
    if (mean is None) != (std is None):
        raise ValueError("mean, std: give both or none")
    if sparse_coding and bottleneck is None:
        raise ValueError("sparse_coding: stands in the bottleneck; give `bottleneck` too")
    if bottleneck is not None and bottleneck < 1:
        raise ValueError(f"bottleneck: must be at least 1, found {bottleneck}")
    if bottleneck is not None and image_shape is None:
        raise ValueError("bottleneck: its width needs the features' shape; give `image_shape` too")


def _probed(encoder: nn.Module, image_shape: Dimensions) -> tuple[int, ...]:
    """Return the shape of the features of one image; the encoder's modes stay as they are."""
    modes = [(module, module.training) for module in encoder.modules()]
    device = next((weights.device for weights in encoder.parameters()), torch.device("cpu"))
    encoder.eval()
    try:
        with torch.no_grad():
            return tuple(encoder(torch.zeros(1, *image_shape, device=device)).shape[1:])
    except RuntimeError as error:
        raise ValueError(f"cut: the client takes no images of {image_shape} ({error})") from error
    finally:
        for module, training in modes:
            module.training = training


def feature_shape(shape: Shape, halvings: int) -> tuple[int, int, int]:
    """Return (channels, height, width) at the cut of a client that halves images so often."""
    side = shape.image_size // 2**halvings
    return BOTTLENECK, side, side
