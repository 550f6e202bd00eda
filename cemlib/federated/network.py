"""Build classifiers for federated learning: convolutions, and a fully connected layer at the end.

The network `lenet` is that of Zhu, Liu and Han, "Deep leakage from gradients", NeurIPS 2019.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.nn import functional as F
from torchvision.models.resnet import BasicBlock, ResNet

Shape = tuple[int, int, int]
Weights = dict[str, Tensor]
Activation = Callable[[], nn.Module]

WEIGHT, BIAS = "classifier.weight", "classifier.bias"
"""Names of the fully connected layer's tensors among the parameters."""

ACTIVATIONS: dict[str, Activation] = {
    "softplus": partial(nn.Softplus, beta=4.0),
    "relu": nn.ReLU,
}
"""Activations by name. Gradient matching takes second derivatives, and those of a ReLU are zero."""


class FederatedNet(nn.Module):
    """Convolutions, and the linear layer `classifier` on their flattened output.

    No layer combines the images of a batch: no image's features or gradient depend on the others.
    `body` maps images (B, C, H, W) in [-1, 1] to `length` features each.
    """

    def __init__(self, body: nn.Module, length: int, num_classes: int) -> None:
        super().__init__()
        self.body = body
        self.classifier = nn.Linear(length, num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) in [0, 1] to the input of the fully connected layer, (B, l)."""
        features: Tensor = self.body(2 * x - 1)
        return features.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) in [0, 1] to logits (B, classes)."""
        logits: Tensor = self.classifier(self.features(x))
        return logits


def lenet(channels: int, activation: Activation) -> nn.Sequential:
    """Return three 5x5 convolutions of 12 channels, the first two with stride 2."""
    layers: list[nn.Module] = []
    for entering, stride in [(channels, 2), (12, 2), (12, 1)]:
        layers += [nn.Conv2d(entering, 12, 5, stride=stride, padding=2), activation()]
    return nn.Sequential(*layers)


def resnet18(channels: int, activation: Activation) -> nn.Module:
    """Return torchvision's ResNet-18 (He, Zhang, Ren and Sun, CVPR 2016) for 32x32 images.

    As is usual for them, the first convolution is 3x3 with stride 1, and no max pooling follows it.
    Batch norm would combine images, so every norm is over groups of 16 channels of a single image
    (Wu and He, ECCV 2018).
    """
    net: nn.Module = ResNet(
        BasicBlock, [2, 2, 2, 2], norm_layer=lambda width: nn.GroupNorm(width // 16, width)
    )
    net.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
    net.maxpool, net.fc = nn.Identity(), nn.Identity()
    for module in list(net.modules()):
        if hasattr(module, "relu"):
            module.relu = activation()
    return net


NETWORKS: dict[str, Callable[[int, Activation], nn.Module]] = {
    "lenet": lenet,
    "resnet18": resnet18,
}


def build(
    name: str, *, num_classes: int, image_shape: Shape, activation: str = "softplus"
) -> FederatedNet:
    """Build a network with torch's initial weights for images (C, H, W) of at least 8x8."""
    body = NETWORKS[name](image_shape[0], ACTIVATIONS[activation])
    with torch.no_grad():
        length = body(torch.zeros(1, *image_shape)).numel()
    return FederatedNet(body, length, num_classes)


def weights_of(net: FederatedNet) -> Weights:
    """Return a detached copy of the parameters by name."""
    return {name: tensor.detach().clone() for name, tensor in net.named_parameters()}


def stack(each: Sequence[Weights]) -> Weights:
    """Stack tensors of several clients by name, along a new first axis."""
    return {name: torch.stack([weights[name] for weights in each]) for name in each[0]}


def features(net: FederatedNet, weights: Weights, x: Tensor) -> Tensor:
    """Return `net.features(x)` with the given weights."""
    inside = {n.removeprefix("body."): t for n, t in weights.items() if n.startswith("body.")}
    found: Tensor = functional_call(net.body, inside, (2 * x - 1,))
    return found.flatten(1)


def gradients(net: FederatedNet, weights: Weights, x: Tensor, y: Tensor) -> tuple[Weights, Tensor]:
    """Return the gradient of the mean cross-entropy by parameter name, and the loss.

    The targets y of images x (B, C, H, W) are labels (B,) or distributions (B, classes).
    """
    found, value = grad_and_value(lambda w: F.cross_entropy(functional_call(net, w, x), y))(weights)
    return found, value
