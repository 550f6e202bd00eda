"""Feature networks of the perceptual attack, and the distance between two images' features.

Zhang, Isola, Efros, Shechtman and Wang, "The unreasonable effectiveness of deep features as a
perceptual metric", CVPR 2018, with all learned weights 1 and the layers averaged: with a_l(x) the
activations (C_l, h_l, w_l) that enter the l-th layer that gives up resolution (a max pool; in a
ResNet a convolution with a stride, or the last mean), scaled to unit length over the channels,

    distance(x, y) = mean over layers of mean over positions of |a_l(x) - a_l(y)|^2

It assumes that the network knows images of this kind. Positions where nothing is active have length
0 and stay 0; next to them the distance is steep, up to a bound.
"""

import pickle
from pathlib import Path

import torch
from torch import Tensor, nn

from cemlib.models.layers import Normalise
from cemlib.records.files import FileError

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TINY = 1e-8  # added to squared lengths: the bound on the slope of a scaled activation is 1e4


def activations(network: nn.Module, images: Tensor) -> list[Tensor]:
    """Return what enters the layers of a network that give up resolution, in their order.

    Args:
        network: Maps images to anything.
        images: (B, C, H, W), as the network takes them.

    Returns:
        Float32 (B, C_l, h_l, w_l) each.

    Raises:
        ValueError: the network has no such layer.
    """
    found: list[Tensor] = []
    layers = [layer for layer in network.modules() if _gives_up_resolution(layer)]
    hooks = [layer.register_forward_pre_hook(lambda _, x: found.append(x[0])) for layer in layers]
    try:
        network(images)
    finally:
        for hook in hooks:
            hook.remove()
    if not found:
        raise ValueError("perceptual: the judge has no max pool; set `pretrained`")
    return [activation.float() for activation in found]


def _gives_up_resolution(layer: nn.Module) -> bool:
    strided = isinstance(layer, nn.Conv2d) and layer.stride != (1, 1)
    return strided or isinstance(layer, nn.MaxPool2d | nn.AdaptiveAvgPool2d)


def unit_length(activation: Tensor) -> Tensor:
    """Scale activations (B, C, h, w) to length 1 over the channels."""
    return activation * (activation.square().sum(1, keepdim=True) + TINY).rsqrt()


def distance(ours: list[Tensor], theirs: list[Tensor]) -> Tensor:
    """Return the mean squared distance of scaled activations, over layers, images and positions.

    Args:
        ours: Activations (B, C_l, h_l, w_l) of one batch of images.
        theirs: Those of the other, of the same shapes.
    """
    layers = zip(ours, theirs, strict=True)
    squares = [(unit_length(a) - unit_length(b)).square().sum(1).mean() for a, b in layers]
    return torch.stack(squares).mean()


def vgg16(path: Path, side: int) -> nn.Module:
    """Load VGG16 of torchvision as far as images of a side fit, for images in [0, 1], in eval mode.

    Args:
        path: Its weights, as torchvision publishes them, or those of `features` alone.
        side: Side of the square images; a pool needs two pixels a side.

    Raises:
        FileError: the file is missing, or holds no such weights.
    """
    from torchvision.models import vgg16 as architecture

    with torch.device("meta"):  # no memory for the classifier, which is not used
        layers = architecture().features
    prefix, weights = "features.", _load(path)
    own = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
    try:
        layers.load_state_dict(own, assign=True)
    except RuntimeError as error:
        raise FileError(f"{path}: pretrained: not torchvision's VGG16 ({error})") from error
    # A grey image minus the means of three channels becomes three channels.
    return nn.Sequential(Normalise(IMAGENET_MEAN, IMAGENET_STD), *_fitting(layers, side)).eval()


def _load(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileError(
            f"{path}: pretrained: no such file; it must hold torchvision's VGG16 weights"
        )
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise FileError(f"{path}: pretrained: not a file of tensors ({error})") from error
    if not isinstance(weights, dict):
        raise FileError(f"{path}: pretrained: holds {type(weights).__name__}, not named tensors")
    return weights


def _fitting(layers: nn.Sequential, side: int) -> list[nn.Module]:
    """Return the layers up to the last pool that finds two pixels a side."""
    pools = [index for index, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
    fitting = pools[: side.bit_length() - 1]
    return list(layers)[: fitting[-1] + 1]
