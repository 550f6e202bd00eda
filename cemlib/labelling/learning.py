"""Train the participants' networks, many small ones at once, and let them classify images.

The weights of M small networks of one kind are stacked, (M, ...), and every layer is one batched
operation: with networks this small, the number of calls determines the time. Each learns as it
would alone. torchvision's networks are trained one by one (M = 1).
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, relu
from torch.nn.utils.rnn import pad_sequence

from cemlib.config.labelling import LocalTrainConfig, NetworkConfig
from cemlib.labelling.loss import information_entropy_loss
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.optim import SGD, Adam

Weights = list[Tensor]
_CHUNK = 256  # images classified at once
_FALL = 0.1  # share of the learning rate that is left at the end of its linear decay
_MOMENTUM = 0.9


def start(
    network: NetworkConfig,
    shape: tuple[int, int, int],
    classes: int,
    streams: Sequence[torch.Generator],
) -> nn.Module:
    """Return M new networks, one for each random generator; M must be 1 unless they are small.

    They map images (M, B, C, H, W), or (1, B, C, H, W) shared by all, to logits (M, B, k).
    """
    if network.small:
        return Stack([small_weights(network, shape, classes, stream) for stream in streams])
    (stream,) = streams
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(stream.initial_seed())
        layers = _torchvision(network.kind, classes)
    return nn.Sequential(nn.Flatten(0, 1), *layers, nn.Unflatten(0, (1, -1)))


def _torchvision(kind: str, classes: int) -> list[nn.Module]:
    """Return the layers of a network for 32x32 images; VGG's head is a single linear layer."""
    from torchvision.models import resnet18
    from torchvision.models.vgg import cfgs, make_layers

    if kind == "resnet18":
        return [resnet18(num_classes=classes)]
    convolutions = make_layers(cfgs[{"vgg11": "A", "vgg16": "D"}[kind]], batch_norm=True)
    return [convolutions, nn.Flatten(), nn.Linear(512, classes)]


def small_weights(
    network: NetworkConfig, shape: tuple[int, int, int], classes: int, stream: torch.Generator
) -> Weights:
    """Draw the weights of one network uniformly within 1 / sqrt(inputs of a unit), like torch."""
    weights: Weights = []
    for size in _sizes(network, shape, classes):
        bound = 1 / math.sqrt(math.prod(size[1:]))
        uniform = (torch.rand(part, generator=stream) for part in (size, size[:1]))
        weights += [bound * (2 * each - 1) for each in uniform]
    return weights


def _sizes(
    network: NetworkConfig, shape: tuple[int, int, int], classes: int
) -> list[tuple[int, ...]]:
    """Return the size of each layer's weight, for images (C, H, W)."""
    width = network.width or 0
    if network.kind == "mlp":
        return [(width, math.prod(shape)), (width, width), (classes, width)]
    channels, height, side = shape
    features = 2 * width * math.ceil(height / 4) * math.ceil(side / 4)
    return [(width, channels, 3, 3), (2 * width, width, 3, 3), (classes, features)]


class Stack(nn.Module):
    """M small networks of one kind and width, applied at once, given the weights of each."""

    def __init__(self, networks: Sequence[Weights]) -> None:
        super().__init__()
        self.layers = nn.ParameterList(map(torch.stack, zip(*networks, strict=True)))

    def forward(self, images: Tensor) -> Tensor:
        """Map images (M, B, C, H, W), or (1, B, C, H, W) shared by all, to logits (M, B, k)."""
        values, weights = images, list(self.layers)
        for weight, bias in zip(weights[::2], weights[1::2], strict=True):
            if values is not images:
                values = relu(values)
            if weight.dim() == 5:
                values = _convolved(values, weight, bias)
            else:
                values = values.flatten(2) @ weight.transpose(1, 2) + bias.unsqueeze(1)
        return values


def _convolved(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Apply M convolutions to (M, B, C, H, W) as a single one with M groups of channels."""
    many, kernels = len(weight), weight.flatten(0, 1)
    channels = values.expand(many, *values.shape[1:]).transpose(0, 1).flatten(1, 2)
    found = conv2d(channels, kernels, bias.flatten(), stride=2, padding=1, groups=many)
    return found.view(len(found), many, -1, *found.shape[2:]).transpose(0, 1)


class TrainingSet(NamedTuple):
    """The training set of one network: positions of images, labels, weights in the loss."""

    positions: Tensor
    labels: Tensor
    weights: Tensor

    def joined(self, other: "TrainingSet") -> "TrainingSet":
        """Return this set and another as one."""
        return TrainingSet(*map(torch.cat, zip(self, other, strict=True)))


def learn(
    networks: nn.Module,
    images: Tensor,
    sets: Sequence[TrainingSet],
    chances: Tensor,
    settings: LocalTrainConfig,
) -> Tensor:
    """Train M networks of `start` in place, each on its own training set; return losses (steps, M).

    The images (P, C, H, W) are normalised; `chances` (steps, M, batch) in [0, 1) choose batches.

    Raises:
        DivergedError: if a loss is not finite.
    """
    rule = Adam if settings.optimiser == "adam" else partial(SGD, momentum=_MOMENTUM)
    optimiser = rule(networks.parameters(), weight_decay=settings.weight_decay)
    networks.train()
    sizes = torch.tensor([[len(each.labels)] for each in sets])
    parts = zip(*sets, strict=True)
    padded = [pad_sequence(list(part), batch_first=True) for part in parts]
    losses = []
    for step, chance in enumerate(chances):
        at = (chance * sizes).long()
        positions, labels, importance = (part.gather(1, at) for part in padded)
        found = networks(images[positions])
        loss = information_entropy_loss(found, labels, importance)
        optimiser.zero_grad()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step(settings.lr * (1 - (1 - _FALL) * step / len(chances)))
        losses.append(loss.detach())
    history = torch.stack(losses)
    if len(lost := (~history.isfinite()).nonzero()):
        step, who = lost[0].tolist()
        value = float(history[step, who])
        raise DivergedError(f"step {step + 1}: loss is {value}; a lower train.lr may help")
    return history


@torch.no_grad()
def classify(networks: nn.Module, images: Tensor) -> Tensor:
    """Return the classes (M, N) that M networks assign to N images."""
    networks.eval()
    parts = [networks(part.unsqueeze(0)).argmax(-1) for part in torch.split(images, _CHUNK)]
    return torch.cat(parts, dim=1)
