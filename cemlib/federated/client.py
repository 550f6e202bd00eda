"""Train clients: the gradient of a step, masked or private, and local descent of many at once.

Everything is a function of weights by name, so that a step can be mapped over a stack of clients.
Training clients one by one gives the same result up to the order of additions.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.func import vmap

from cemlib.config.federated import MaskConfig, Variant
from cemlib.federated.drawing import Draws
from cemlib.federated.mask import draw_columns, hadamard, mask, scores
from cemlib.federated.network import (
    WEIGHT,
    FederatedNet,
    Weights,
    features,
    gradients,
    stack,
    weights_of,
)
from cemlib.federated.private import draw_noise, private_gradients

Step = Callable[..., tuple[Weights, Tensor]]
"""A function that maps weights, x, y and a step's random draws to the gradients and the loss."""

Inputs = tuple[Tensor | Weights, ...]
"""Inputs of one step of every client besides the weights, with the clients as the first axis.

They are mixed images (clients, B, C, H, W) and labels (clients, B), followed by the columns
(clients, outputs) of 0 and 1 for a mask, or by DP-SGD's noise by name (clients, ...).
"""


def step_inputs(
    net: FederatedNet, variant: Variant, x: Tensor, y: Tensor, draws: Sequence[Draws]
) -> list[Inputs]:
    """Return the inputs of every step, given images (clients, steps, B, C, H, W) and labels."""
    steps = x.shape[1]
    parts: list[Sequence[Tensor | Weights]] = [x.unbind(1), y.unbind(1)]
    if variant.mask is not None:
        outputs, beta = net.classifier.out_features, variant.mask.beta
        streams = [drawn.stream("columns") for drawn in draws]
        columns = [[draw_columns(beta, outputs, own) for _ in range(steps)] for own in streams]
        parts.append([torch.stack(each).to(x.device) for each in zip(*columns, strict=True)])
    if variant.dp_sgd is not None:
        weights, scale = weights_of(net), variant.dp_sgd.noise_multiplier
        streams = [drawn.stream("noise") for drawn in draws]
        noise = [[draw_noise(weights, scale, stream) for _ in range(steps)] for stream in streams]
        parts.append([stack(each) for each in zip(*noise, strict=True)])
    return list(zip(*parts, strict=True))


def step_mask(net: FederatedNet, weights: Weights, x: Tensor, how: MaskConfig) -> Tensor:
    """Return the mask (l,) for a step on images (B, C, H, W)."""
    found = scores(partial(features, net, weights), x[: how.images], how.order)
    return mask(found, how.alpha)


def masked_gradients(
    net: FederatedNet, weights: Weights, x: Tensor, y: Tensor, columns: Tensor, how: MaskConfig
) -> tuple[Weights, Tensor]:
    """Return the gradients of a step, with the last layer's weight gradient masked, and the loss.

    The mask applies where `columns` (outputs,) is 1. The bias's gradient does not show any feature.
    """
    found, value = gradients(net, weights, x, y)
    kept = hadamard(step_mask(net, weights, x, how), columns)
    return {**found, WEIGHT: found[WEIGHT] * kept}, value


def step_of(net: FederatedNet, variant: Variant) -> Step:
    """Return the function for the gradient of a client's step: plain, masked or private."""
    if variant.dp_sgd is not None:
        return partial(private_gradients, net, clip=variant.dp_sgd.clip)
    if variant.mask is not None:
        return partial(masked_gradients, net, how=variant.mask)
    return partial(gradients, net)


def train_at_once(
    step: Step, weights: Weights, work: Sequence[Inputs], lr: float
) -> tuple[Weights, Tensor]:
    """Train all clients at once, from the same weights, on the inputs of each step.

    Return the change of each client's weights (clients, ...), and the losses (clients, steps).
    """
    clients = len(work[0][1])
    stacked = {name: w.expand(clients, *w.shape) for name, w in weights.items()}
    losses = []
    for inputs in work:
        gradient, value = vmap(step)(stacked, *inputs)
        stacked = {n: torch.sub(w, gradient[n], alpha=lr) for n, w in stacked.items()}
        losses.append(value)
    return {name: stacked[name] - w for name, w in weights.items()}, torch.stack(losses, 1)
