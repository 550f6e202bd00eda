"""Train the participants' small networks, all of one kind at once, and let them classify.

The weights of M networks are stacked, (M, ...), and every layer is one batched operation: training
fifteen tiny networks apart costs fifteen times the calls of training them together, and the calls
are what it costs. Each network sees its own images and learns as it would alone.
"""

import math
from collections.abc import Callable, Sequence
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
_FALL = 0.1  # share of the learning rate that the last step has


class Kind(NamedTuple):
    """Say how a kind of network is laid out.

    Attributes:
        shapes: weight and bias of each layer, for images (C, H, W), k classes and a width.
        logits: (M, B, C, H, W) images to (M, B, k).
    """

    shapes: Callable[[tuple[int, int, int], int, int], list[tuple[int, ...]]]
    logits: Callable[[Weights, Tensor], Tensor]


def start(
    network: NetworkConfig, shape: tuple[int, int, int], classes: int, stream: torch.Generator
) -> Weights:
    """Draw the weights of one network: uniform within 1 / sqrt(inputs of a unit), like torch."""
    layers = KINDS[network.kind].shapes(shape, classes, network.width)
    weights: Weights = []
    for weight, bias in zip(layers[::2], layers[1::2], strict=True):
        bound = 1 / math.sqrt(math.prod(weight[1:]))
        uniform = (torch.rand(size, generator=stream) for size in (weight, bias))
        weights += [bound * (2 * each - 1) for each in uniform]
    return weights


def stack(networks: Sequence[Weights]) -> Weights:
    """Stack the weights of M networks of one kind and width."""
    return [torch.stack(layer) for layer in zip(*networks, strict=True)]


def _mlp_shapes(shape: tuple[int, int, int], classes: int, width: int) -> list[tuple[int, ...]]:
    sizes = (math.prod(shape), width, width, classes)
    pairs = zip(sizes[1:], sizes, strict=False)
    return [size for out, inputs in pairs for size in ((out, inputs), (out,))]


def _cnn_shapes(shape: tuple[int, int, int], classes: int, width: int) -> list[tuple[int, ...]]:
    channels, height, side = shape
    features = 2 * width * math.ceil(height / 4) * math.ceil(side / 4)
    layers = ((width, channels, 3, 3), (2 * width, width, 3, 3), (classes, features))
    return [size for weight in layers for size in (weight, weight[:1])]


def _mlp(weights: Weights, images: Tensor) -> Tensor:
    """Apply two hidden layers of rectified units, and a linear one."""
    values = images.flatten(2)
    for weight, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        values = relu(_linear(values, weight, bias))
    return _linear(values, weights[-2], weights[-1])


def _cnn(weights: Weights, images: Tensor) -> Tensor:
    """Apply two rectified 3x3 convolutions with stride 2, and a linear layer."""
    many, batch = weights[0].shape[0], images.shape[1]
    values = images.expand(many, *images.shape[1:]).transpose(0, 1).flatten(1, 2)
    for weight, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        kernels = weight.flatten(0, 1)
        values = relu(conv2d(values, kernels, bias.flatten(), stride=2, padding=1, groups=many))
    features = values.view(batch, many, -1).transpose(0, 1)
    return _linear(features, weights[-2], weights[-1])


def _linear(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Map (M, B, in) or, for images that all share, (1, B, in) to (M, B, out)."""
    return values @ weight.transpose(1, 2) + bias.unsqueeze(1)


KINDS = {"mlp": Kind(_mlp_shapes, _mlp), "cnn": Kind(_cnn_shapes, _cnn)}
"""Kinds that a `NetworkConfig` can name."""


class Lesson(NamedTuple):
    """Hold what one network learns from.

    Attributes:
        positions: (n,) of its images among those of the study.
        labels: (n,) class indices.
        weights: (n,) of each label in the loss.
    """

    positions: Tensor
    labels: Tensor
    weights: Tensor


def learn(
    network: NetworkConfig,
    weights: Weights,
    images: Tensor,
    lessons: Sequence[Lesson],
    chances: Tensor,
    settings: LocalTrainConfig,
) -> tuple[Weights, Tensor]:
    """Train M networks.

    Args:
        network: kind and width, the same for all.
        weights: stacked starting weights.
        images: (P, C, H, W), normalised.
        lessons: one for each network.
        chances: (steps, M, batch) uniform in [0, 1): which of its images a network sees.
        settings: of the training.

    Returns:
        The trained weights, and the loss of every step (steps, M).

    Raises:
        DivergedError: if a loss is no number.
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
        logits = KINDS[network.kind].logits(list(parameters), images[positions])
        loss = information_entropy_loss(logits, labels, importance)
        optimiser.zero_grad()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step(settings.lr * (1 - (1 - _FALL) * step / len(chances)))
        losses.append(loss.detach())
    history = torch.stack(losses)
    check_finite(len(chances), loss=float(history.sum()))
    return [parameter.detach() for parameter in parameters], history


@torch.no_grad()
def classify(network: NetworkConfig, weights: Weights, images: Tensor) -> Tensor:
    """Return the class that each of M networks gives each of N images, (M, N)."""
    logits = KINDS[network.kind].logits
    parts = [logits(weights, part.unsqueeze(0)).argmax(-1) for part in torch.split(images, _CHUNK)]
    return torch.cat(parts, dim=1)
