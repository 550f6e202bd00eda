"""Layers of the split networks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Entry = int | str  # output channels of Conv-BN-ReLU, or "M" for a 2x2 max pool


class Normalise(nn.Module):
    """Normalises images in [0, 1] by the mean and standard deviation of each channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Normalise images (B, C, H, W)."""
        return (images - self.mean) / self.std


class SparseCoding(nn.Module):
    """Replaces the flattened features u by soft(u W^T, t) W (the published code's "SCA_new").

    `soft(a, t) = sign(a) relu(|a| - t)` is the proximal operator of the l1 norm. W (D, D) is
    trained with the network, without a loss of its own.
    """

    def __init__(self, dim: int, threshold: float = 0.01) -> None:
        super().__init__()
        self.threshold = threshold
        self.weight = nn.Parameter(F.normalize(torch.randn(dim, dim), dim=1))

    def forward(self, features: Tensor) -> Tensor:
        """Code features (B, ...) of D elements per sample; the shape stays the same."""
        codes = F.softshrink(F.linear(features.flatten(1), self.weight), self.threshold)
        return (codes @ self.weight).view_as(features)


class ConvStack(nn.Sequential):
    """Conv 3x3-BN-ReLU for every number and MaxPool 2 for every "M", for `channels` inputs.

    A pool comes before the ReLU of its block, which then has a quarter of the values. ReLU commutes
    with the maximum, so outputs and gradients are the same.
    """

    def __init__(self, entries: Sequence[Entry], channels: int) -> None:
        layers: list[nn.Module] = []
        for entry in entries:
            if isinstance(entry, int):
                convolution = nn.Conv2d(channels, entry, 3, padding=1)
                layers += [convolution, nn.BatchNorm2d(entry), nn.ReLU(inplace=True)]
                channels = entry
            else:
                layers.insert(-1, nn.MaxPool2d(2))
        super().__init__(*layers)

    def blocks(self) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
        """Return every convolution with its batch normalisation, in order."""
        convolutions = [layer for layer in self if isinstance(layer, nn.Conv2d)]
        norms = [layer for layer in self if isinstance(layer, nn.BatchNorm2d)]
        return list(zip(convolutions, norms, strict=True))


def xavier(module: nn.Module) -> None:
    """Initialise convolutions and linear layers with Xavier-uniform weights and zero biases."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


@contextmanager
def modes_kept(module: nn.Module) -> Iterator[None]:
    """Restore the training or evaluation mode of all submodules at the end."""
    modes = [(each, each.training) for each in module.modules()]
    try:
        yield
    finally:
        for each, training in modes:
            each.training = training
