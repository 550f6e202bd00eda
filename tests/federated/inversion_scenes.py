"""Small networks and images that the tests of gradient inversion share."""

from functools import partial

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.func import vmap

from cemlib.federated.inversion.gradients import Shared
from cemlib.federated.inversion.scene import Scene
from cemlib.federated.network import FederatedNet, build, gradients, weights_of

SHAPE = (1, 8, 8)


def digits(count: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return the last images (N, 1, 8, 8) in [0, 1] and their labels: none of the class means."""
    bundle = load_digits()
    images = torch.tensor(bundle.images[-count:], dtype=dtype)[:, None] / 16
    return images, torch.tensor(bundle.target[-count:]).long()


def class_means(dtype: torch.dtype = torch.float32) -> Tensor:
    bundle = load_digits()
    images, labels = torch.tensor(bundle.images[:1000], dtype=dtype) / 16, bundle.target[:1000]
    return torch.stack([images[labels == c].mean(0) for c in range(10)])[:, None]


def network(
    dtype: torch.dtype = torch.float32,
    activation: str = "softplus",
    seed: int = 0,
    name: str = "lenet",
) -> FederatedNet:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = build(name, num_classes=10, image_shape=SHAPE, activation=activation)
    return net.to(dtype)


def trained(steps: int) -> FederatedNet:
    """Return the network after some steps of descent on all digits but the last."""
    net, draws = network(), torch.Generator().manual_seed(0)
    images, labels = (part[:-200] for part in digits(1797))
    weights = weights_of(net)
    for _ in range(steps):
        rows = torch.randint(len(labels), (32,), generator=draws)
        slope, _ = gradients(net, weights, images[rows], labels[rows])
        weights = {name: w - 0.3 * slope[name] for name, w in weights.items()}
    net.load_state_dict(weights)
    return net


def flat_network() -> FederatedNet:
    """Return the linear layer alone: its input is the image, from [0, 1] to [-1, 1]."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return FederatedNet(nn.Identity(), 64, 10).double()


def undefended(net: FederatedNet, images: Tensor, labels: Tensor) -> Shared:
    """Return what the server sees of images (N, C, H, W) without a defence."""
    each = vmap(partial(gradients, net, weights_of(net)))
    found, _ = each(images[:, None], labels[:, None])
    return Shared(found, class_means(images.dtype), 1)


def scene(count: int, ratio: float = 1.0) -> Scene:
    """Return digits, trained on as they are or mixed with the class means of others."""
    images, labels = digits(count)
    prior = class_means()
    mixed = ratio * images + (1 - ratio) * prior[labels]
    return Scene(images, labels, mixed, torch.full((count,), ratio), prior)
