"""Train the participants' small networks, all of one kind at once, and let them classify.

The weights of M networks are stacked, (M, ...), and every layer is one batched operation: with
networks as small as these the number of calls decides the time. Each network sees its own images
and learns as it would alone.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, relu
from torch.nn.utils.rnn import pad_sequence

from cemlib.config.labelling import LocalTrainConfig, NetworkConfig
from cemlib.labelling.loss import information_entropy_loss
from cemlib.numerics.divergence import check_finite
from cemlib.numerics.optim import Adam

Weights = list[Tensor]
_CHUNK = 256  # images classified at once
_FALL = 0.1  # the learning rate falls linearly to this share


def start(
    network: NetworkConfig, shape: tuple[int, int, int], classes: int, stream: torch.Generator
) -> Weights:
    """Draw the weights of one network: uniform within 1 / sqrt(inputs of a unit), like torch."""
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
    width = network.width
    if network.kind == "mlp":
        return [(width, math.prod(shape)), (width, width), (classes, width)]
    channels, height, side = shape
    features = 2 * width * math.ceil(height / 4) * math.ceil(side / 4)
    return [(width, channels, 3, 3), (2 * width, width, 3, 3), (classes, features)]


def stack(networks: Sequence[Weights]) -> Weights:
    """Stack the weights of M networks of one kind and width."""
    return [torch.stack(layer) for layer in zip(*networks, strict=True)]


def logits(weights: Weights, images: Tensor) -> Tensor:
    """Apply M networks to images (M, B, C, H, W), or (1, B, C, H, W) for all; return (M, B, k).

    All layers but the last are rectified. Convolutions have the stride 2.
    """
    values = images
    for weight, bias in zip(weights[::2], weights[1::2], strict=True):
        if values is not images:
            values = relu(values)
        if weight.dim() == 5:
            values = _convolved(values, weight, bias)
        else:
            values = values.flatten(2) @ weight.transpose(1, 2) + bias.unsqueeze(1)
    return values


def _convolved(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Apply M convolutions to (M, B, C, H, W) as one with M groups of channels."""
    many, kernels = len(weight), weight.flatten(0, 1)
    channels = values.expand(many, *values.shape[1:]).transpose(0, 1).flatten(1, 2)
    found = conv2d(channels, kernels, bias.flatten(), stride=2, padding=1, groups=many)
    return found.view(len(found), many, -1, *found.shape[2:]).transpose(0, 1)


class Lesson(NamedTuple):
    """Hold what one network learns from: positions of images, their labels, weights in the loss."""

    positions: Tensor
    labels: Tensor
    weights: Tensor

    def joined(self, other: "Lesson") -> "Lesson":
        """Return this lesson and another as one."""
        return Lesson(*map(torch.cat, zip(self, other, strict=True)))


def learn(
    weights: Weights,
    images: Tensor,
    lessons: Sequence[Lesson],
    chances: Tensor,
    settings: LocalTrainConfig,
) -> tuple[Weights, Tensor]:
    """Train M networks of one kind and width; return their weights and losses (steps, M).

    Args:
        weights: the M networks to begin with, stacked.
        images: (P, C, H, W), normalised.
        lessons: one for each network.
        chances: (steps, M, batch), uniform in [0, 1): which of its images a network sees.
        settings: of the training.

    Raises:
        DivergedError: if a loss is not finite.
    """
    parameters = [nn.Parameter(layer.clone()) for layer in weights]
    optimiser = Adam(parameters, weight_decay=settings.weight_decay)
    sizes = torch.tensor([[len(lesson.labels)] for lesson in lessons])
    parts = zip(*lessons, strict=True)
    padded = [pad_sequence(list(part), batch_first=True) for part in parts]
    losses = []
    for step, chance in enumerate(chances):
        at = (chance * sizes).long()
        positions, labels, importance = (part.gather(1, at) for part in padded)
        found = logits(list(parameters), images[positions])
        loss = information_entropy_loss(found, labels, importance)
        optimiser.zero_grad()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step(settings.lr * (1 - (1 - _FALL) * step / len(chances)))
        losses.append(loss.detach())
    history = torch.stack(losses)
    check_finite(len(chances), loss=float(history.sum()))
    return [parameter.detach() for parameter in parameters], history


@torch.no_grad()
def classify(weights: Weights, images: Tensor) -> Tensor:
    """Return the class that each of M networks gives each of N images, (M, N)."""
    parts = [logits(weights, part.unsqueeze(0)).argmax(-1) for part in torch.split(images, _CHUNK)]
    return torch.cat(parts, dim=1)
