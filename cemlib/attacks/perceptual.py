"""The published decoder, trained with a distance between features of a classifier in its loss.

Johnson, Alahi and Fei-Fei, "Perceptual losses for real-time style transfer and super-resolution",
ECCV 2016:

    loss = MSE(D(z~), x) + feature_weight * distance(D(z~), x)

The distance is that of Zhang, Isola, Efros, Shechtman and Wang, "The unreasonable effectiveness of
deep features as a perceptual metric", CVPR 2018, with all learned weights 1 and an average over
layers. With the inputs a_l(x), (C_l, h_l, w_l), of the layers that lower the resolution (pools and
convolutions with a stride), scaled to unit length over the channels,

    distance(x, y) = mean over layers of mean over positions of |a_l(x) - a_l(y)|^2

The classifier is the study's undefended judge or a pretrained VGG16; it must have been trained on
images of this kind. Where a release shows little, the sharp details are invented.
"""

import copy
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.learning import Numbers, Regression, learn
from cemlib.attacks.task import Outcome, Task
from cemlib.models.layers import Normalise
from cemlib.records.files import FileError

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TINY = 1e-8  # added to squared lengths: bounds the slope of a scaled activation by 1e4


def perceptual(task: Task) -> Outcome:
    """Train the decoder on the attacker's pairs, then reconstruct every release.

    Raises:
        DivergedError: if its loss is not finite.
        FileError: if the file of pretrained weights is missing or does not fit.
        ValueError: if the judge has no layer whose input could be compared.
    """
    network = feature_network(task)
    return learn(task, lambda planned: _Perceptual(planned, network))


class _Perceptual(Regression):
    def __init__(self, task: Task, network: nn.Module) -> None:
        super().__init__(task)
        self.network = network

    def objective(self, answers: Tensor, targets: Tensor) -> tuple[Tensor, Numbers]:
        mse = F.mse_loss(answers, targets)
        with self.precision():
            with torch.no_grad():
                theirs = activations(self.network, targets)
            ours = activations(self.network, answers)
        apart = distance(ours, theirs)
        loss = mse + self.options["feature_weight"] * apart
        return loss, {"train_mse": mse.detach(), "train_distance": apart.detach()}


def feature_network(task: Task) -> nn.Module:
    """Return the network whose features are compared, in eval mode and frozen."""
    file, device = task.options["pretrained"], task.own.features.device
    network: nn.Module
    if file:
        network = vgg16(Path(file), min(task.image_shape[1:])).to(memory_format=torch.channels_last)
    else:
        # A copy, because the judge itself must not be frozen. Its weights keep their memory order,
        # because not every network works with another one.
        network = copy.deepcopy(task.judge)
    return network.to(device).eval().requires_grad_(False)


def activations(network: nn.Module, images: Tensor) -> list[Tensor]:
    """Return the inputs (B, C_l, h_l, w_l), in float32, of the layers that lower the resolution.

    Our maximum pools come before their ReLU, so what enters them is rectified here.

    Raises:
        ValueError: if the network has no such layer.
    """
    found: list[Tensor] = []
    layers = [layer for layer in network.modules() if _lowers_resolution(layer)]

    def keep(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        found.append(given[0].relu() if isinstance(layer, nn.MaxPool2d) else given[0])

    hooks = [layer.register_forward_pre_hook(keep) for layer in layers]
    try:
        network(images)
    finally:
        for hook in hooks:
            hook.remove()
    if not found:
        raise ValueError(
            "perceptual: the judge has no layer that lowers the resolution; set `pretrained`"
        )
    return [activation.float() for activation in found]


def _lowers_resolution(layer: nn.Module) -> bool:
    strided = isinstance(layer, nn.Conv2d) and layer.stride != (1, 1)
    return strided or isinstance(layer, nn.MaxPool2d | nn.AvgPool2d | nn.AdaptiveAvgPool2d)


def unit_length(activation: Tensor) -> Tensor:
    """Scale activations (B, C, h, w) to length 1 over the channels."""
    return activation * (activation.square().sum(1, keepdim=True) + TINY).rsqrt()


def distance(ours: list[Tensor], theirs: list[Tensor]) -> Tensor:
    """Return the mean squared distance of scaled activations over layers, images and positions."""
    layers = zip(ours, theirs, strict=True)
    squares = [(unit_length(a) - unit_length(b)).square().sum(1).mean() for a, b in layers]
    return torch.stack(squares).mean()


def vgg16(path: Path, side: int) -> nn.Module:
    """Load VGG16, for images in [0, 1], up to its last pool that images of this side can pass.

    The file at `path` holds the weights as torchvision publishes them, of which only those of
    `features` are read; `side` is the shorter side of the images.

    Raises:
        FileError: if the file is missing, or holds no such weights.
    """
    from torchvision.models import vgg16 as architecture

    with torch.device("meta"):  # the classifier, which is not used, needs no memory
        layers = architecture().features
    prefix = "features."
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
        own = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
        layers.load_state_dict(own, assign=True)
    except Exception as error:  # torch raises errors of many types, depending on the content
        told = f"must hold torchvision's VGG16 weights ({error})"
        raise FileError(f"{path}: pretrained: {told}") from error
    # Normalisation turns the one channel of a grey image into three.
    return nn.Sequential(Normalise(IMAGENET_MEAN, IMAGENET_STD), *_fitting(layers, side)).eval()


def _fitting(layers: nn.Sequential, side: int) -> list[nn.Module]:
    """Return the layers up to the last pool whose input has at least two pixels a side."""
    pools = [index for index, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
    fitting = pools[: side.bit_length() - 1]
    return list(layers)[: fitting[-1] + 1]
