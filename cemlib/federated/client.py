"""Train clients: the gradient of a step, masked or private, and local descent of all at once.

Everything is a function of weights by name, so that one client's step can be mapped over a stack of
clients, and an attack can differentiate through it. Clients that are trained at once have their
weights stacked; training them one by one gives the same but for the order of additions.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from cemlib.config.federated import MaskConfig, Variant
from cemlib.federated.drawing import Draws
from cemlib.federated.mask import hadamard, mask, scores
from cemlib.federated.network import WEIGHT, FederatedNet, Weights, features, loss, weights_of
from cemlib.federated.private import draw_noise, private_gradients

Step = Callable[..., tuple[Weights, Tensor]]
"""Function of weights, x, y and the draws of a step, to the gradients and the loss."""

Inputs = tuple[Tensor | Weights, ...]
"""Inputs of one step of every client besides the weights, with the clients as the first axis.

Images (clients, B, C, H, W), mixed already, and labels (clients, B); then for a mask its columns
(clients, outputs) of 0 and 1, or for DP-SGD the noise by parameter name (clients, ...).
"""


def gradients(net: FederatedNet, weights: Weights, x: Tensor, y: Tensor) -> tuple[Weights, Tensor]:
    """Return the gradient of the mean cross-entropy by parameter name, and the loss."""
    found, value = grad_and_value(lambda w: loss(net, w, x, y))(weights)
    return found, value


def step_inputs(
    net: FederatedNet, variant: Variant, x: Tensor, y: Tensor, draws: Sequence[Draws]
) -> list[Inputs]:
    """Return the inputs of every step, for images (clients, steps, B, C, H, W) and their labels.

    Each client draws the columns of its masks, or the noise of DP-SGD, from its own stream.
    """
    steps = x.shape[1]
    parts: list[Sequence[Tensor | Weights]] = [x.unbind(1), y.unbind(1)]
    if variant.mask is not None:
        outputs, beta = net.classifier.out_features, variant.mask.beta
        columns = torch.stack([drawn.columns(beta, outputs, steps) for drawn in draws])
        parts.append(columns.to(x.device).unbind(1))
    if variant.dp_sgd is not None:
        weights, scale = weights_of(net), variant.dp_sgd.noise_multiplier
        streams = [drawn.stream("noise") for drawn in draws]
        noise = [[draw_noise(weights, scale, stream) for _ in range(steps)] for stream in streams]
        parts.append([stack(each) for each in zip(*noise, strict=True)])
    return list(zip(*parts, strict=True))


def step_mask(net: FederatedNet, weights: Weights, x: Tensor, how: MaskConfig) -> Tensor:
    """Return the mask (l,) of a step on images (B, C, H, W)."""
    found = scores(partial(features, net, weights), x[: how.images], how.order)
    return mask(found, how.alpha)


def masked_gradients(
    net: FederatedNet, weights: Weights, x: Tensor, y: Tensor, columns: Tensor, how: MaskConfig
) -> tuple[Weights, Tensor]:
    """Return the gradients of a step with that of the last layer's weight masked, and the loss.

    H is the mask of the step where `columns` (outputs,) is 1. The gradient of the bias is not
    masked; it does not show any feature.
    """
    found, value = gradients(net, weights, x, y)
    kept = hadamard(step_mask(net, weights, x, how), columns)
    return {**found, WEIGHT: found[WEIGHT] * kept}, value


def step_of(net: FederatedNet, variant: Variant) -> Step:
    """Return the gradient that a client's step descends: plain, masked, or private."""
    if variant.dp_sgd is not None:
        return partial(private_gradients, net, clip=variant.dp_sgd.clip)
    if variant.mask is not None:
        return partial(masked_gradients, net, how=variant.mask)
    return partial(gradients, net)


def train_at_once(
    step: Step, weights: Weights, work: Sequence[Inputs], lr: float
) -> tuple[Weights, Tensor]:
    """Train all clients from the same weights, stacked, on the inputs of each step.

    Returns each one's change of the weights (clients, ...), and the losses (clients, steps).
    """
    clients = len(work[0][1])
    stacked = {name: w.expand(clients, *w.shape) for name, w in weights.items()}
    losses = []
    for inputs in work:
        gradient, value = vmap(step)(stacked, *inputs)
        stacked = {n: torch.sub(w, gradient[n], alpha=lr) for n, w in stacked.items()}
        losses.append(value)
    return {name: stacked[name] - w for name, w in weights.items()}, torch.stack(losses, 1)


def stack(each: Sequence[Weights]) -> Weights:
    """Stack tensors of several clients by name, along a new first axis."""
    return {name: torch.stack([weights[name] for weights in each]) for name in each[0]}
