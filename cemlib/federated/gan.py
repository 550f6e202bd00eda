"""The conditional GAN of a client's pseudo images, and the convolution before its discriminator.

Mirza and Osindero, "Conditional generative adversarial nets", 2014, with the discriminator of
Miyato and Koyama, "cGANs with projection discriminator", ICLR 2018, on the convolution's features.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn import functional as F

from cemlib.data.prepared import Split
from cemlib.federated.network import Shape, Weights, stack
from cemlib.federated.setting import random_batches
from cemlib.numerics.seeds import generator
from cemlib.records.files import FileError, sha256

WEIGHTS, KEY = "vgg11-8a719046.pth", "features.0.weight"
CHANNELS, BATCH, LR = 16, 16, 0.2  # of a local extractor

Extractor = tuple[Tensor, dict[str, str]]
"""The kernels of all clients (clients, C', C, k, k), and their origin."""


class Generator(nn.Module):
    """Network from noise (B, latent) and labels (B,) to images in [0, 1]; 4 divides their sides."""

    def __init__(self, image_shape: Shape, num_classes: int, latent: int, width: int) -> None:
        super().__init__()
        channels, height, wide = image_shape
        self.num_classes = num_classes
        self.start = (width, height // 4, wide // 4)
        self.first = nn.Linear(latent + num_classes, width * (height // 4) * (wide // 4))
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.third = nn.Conv2d(width, width // 2, 3, padding=1)
        self.last = nn.Conv2d(width // 2, channels, 3, padding=1)

    def forward(self, e: Tensor, y: Tensor) -> Tensor:
        """Apply the network; see the class."""
        label = F.one_hot(y, self.num_classes).to(e)
        x = F.relu(self.first(torch.cat([e, label], dim=1))).view(len(e), *self.start)
        x = F.relu(self.second(F.interpolate(x, scale_factor=2)))
        x = F.relu(self.third(F.interpolate(x, scale_factor=2)))
        return torch.sigmoid(self.last(x))


class Discriminator(nn.Module):
    """Network from features F(x) (B, C', H, W) and labels (B,) to logits (B,), positive if real."""

    def __init__(self, feature_shape: Shape, num_classes: int, width: int) -> None:
        super().__init__()
        channels, height, wide = feature_shape
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, width, 3, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
        )
        length = width * -(-height // 4) * -(-wide // 4)
        self.output = nn.Linear(length, 1)
        self.label = nn.Linear(num_classes, length, bias=False)

    def forward(self, features: Tensor, y: Tensor) -> Tensor:
        """Apply the network; see the class."""
        found = self.body(features)
        label = F.one_hot(y, self.label.in_features).to(found)
        logits: Tensor = self.output(found).squeeze(1) + (found * self.label(label)).sum(1)
        return logits


def extracted(x: Tensor, kernel: Tensor) -> Tensor:
    """Return F(x) = ReLU(kernel * (2 x - 1)) of images x (B, C, H, W) in [0, 1], of their size."""
    return F.relu(F.conv2d(2 * x - 1, kernel, padding=kernel.shape[-1] // 2))


def variance(images: Tensor, of: str = "batch") -> Tensor:
    """Return the mean unbiased variance of two or more images (B, C, H, W).

    It is that of each pixel over all images (`of="batch"`), or of each image over its pixels.
    """
    return images.var(0).mean() if of == "batch" else images.flatten(1).var(1).mean()


def discriminator_loss(real: Tensor, fake: Tensor) -> Tensor:
    """Return the cross-entropy of logits on real and on generated images."""
    return F.softplus(-real).mean() + F.softplus(fake).mean()


def generator_loss(fake: Tensor, spread: Tensor, mu: float, v_e: float) -> Tensor:
    """Return -log D of logits `fake` (B,) on generated images, plus mu (spread - v_e)^2."""
    return F.softplus(-fake).mean() + mu * (spread - v_e).square()


def cached_weights() -> Path:
    """Return the path where torchvision keeps VGG11's weights, whether or not they are there."""
    return Path(torch.hub.get_dir()) / "checkpoints" / WEIGHTS


def pretrained(file: Path, channels: int, clients: int) -> Extractor:
    """Read VGG11's first convolution for 1 or 3 channels; raise FileError if the file lacks it.

    A grey image has three equal channels, so its kernel is the sum over the channels.
    """
    try:
        kernel = torch.load(file, weights_only=True, map_location="cpu", mmap=True)[KEY].clone()
    except Exception as error:  # torch raises errors of many types, depending on the content
        raise FileError(
            f"{file}: no weights of torchvision's VGG11 ({error}); delete it, or set extractor:"
            " local"
        ) from error
    kernel = kernel.sum(1, keepdim=True) if channels == 1 else kernel
    origin = {"source": "torchvision vgg11 features.0", "sha256": sha256(file)}
    return kernel.expand(clients, *kernel.shape).contiguous(), origin


def local(clients: Sequence[Split], classes: int, seed: int, steps: int) -> Extractor:
    """Train each client's own F by SGD: convolution, ReLU, 2x2 mean and linear classifier."""
    start = _start(clients[0].images, classes, seed)
    weights = stack([start for _ in clients])
    for step in range(steps):
        draws = [generator(seed, f"federated/extractor/{i}", step) for i in range(len(clients))]
        gradient = vmap(grad(_loss))(weights, *random_batches(clients, BATCH, draws))
        weights = {name: w - LR * gradient[name] for name, w in weights.items()}
    return weights["kernel"], {"source": f"trained locally, {steps} steps"}


def _start(images: Tensor, classes: int, seed: int) -> Weights:
    draws = generator(seed, "federated/extractor")
    channels, height, width = images.shape[1:]
    fan_in, length = 9 * channels, CHANNELS * (height // 2) * (width // 2)
    kernel = torch.randn(CHANNELS, channels, 3, 3, generator=draws) * (2 / fan_in) ** 0.5
    return {
        "kernel": kernel.to(images.device),
        "linear": torch.zeros(classes, length, device=images.device),
    }


def _loss(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
    found = F.avg_pool2d(extracted(x, weights["kernel"]), 2).flatten(1)
    return F.cross_entropy(found @ weights["linear"].T, y)
