"""Train clients: the gradient of a step, masked or private, and local descent of all at once.

Everything is a function of weights by name, so that one client's step can be mapped over a stack of
clients, and an attack can differentiate through it. Clients that are trained at once have their
weights stacked; training them one by one gives the same but for the order of additions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from cemlib.config.federated import MaskConfig, Variant
from cemlib.federated.mask import hadamard, mask, scores
from cemlib.federated.network import WEIGHT, FederatedNet, Weights, features, loss
from cemlib.federated.private import private_gradients

Step = Callable[..., tuple[Weights, Tensor]]
"""Function of weights, x, y and the draws of a step, to the gradients and the loss."""


@dataclass(frozen=True)
class Work:
    """Hold what some clients train on in a round.

    Attributes:
        x: Images (clients, steps, B, C, H, W), mixed already.
        y: Labels (clients, steps, B).
        columns: (clients, steps, outputs) of 0 and 1 for the mask, or None.
        noise: By parameter name (clients, steps, ...) for DP-SGD, or None.
    """

    x: Tensor
    y: Tensor
    columns: Tensor | None = None
    noise: Weights | None = None

    def step(self, index: int) -> list[Tensor | Weights]:
        """Return what one step of every client takes, each with the clients as its first axis."""
        taken: list[Tensor | Weights] = [self.x[:, index], self.y[:, index]]
        if self.columns is not None:
            taken.append(self.columns[:, index])
        if self.noise is not None:
            taken.append({name: tensor[:, index] for name, tensor in self.noise.items()})
        return taken


def gradients(net: FederatedNet, weights: Weights, x: Tensor, y: Tensor) -> tuple[Weights, Tensor]:
    """Return the gradient of the mean cross-entropy by parameter name, and the loss."""
    found, value = grad_and_value(lambda w: loss(net, w, x, y))(weights)
    return found, value


def step_mask(net: FederatedNet, weights: Weights, x: Tensor, how: MaskConfig) -> Tensor:
    """Return the mask (l,) of a step on images (B, C, H, W)."""
    found = scores(partial(features, net, weights), x[: how.images], how.order)
    return mask(found, how.alpha)


def masked_gradients(
    net: FederatedNet, weights: Weights, x: Tensor, y: Tensor, columns: Tensor, how: MaskConfig
) -> tuple[Weights, Tensor]:
    """Return the gradients of a step with that of the last layer's weight masked, and the loss.

    The gradient of the bias is not masked; it does not show any feature.

    Args:
        net: the network.
        weights: its weights at the step.
        x: images (B, C, H, W) as trained on, mixed already.
        y: labels (B,).
        columns: (outputs,) of 0 and 1, the columns of H that the mask replaces.
        how: the mask's settings.
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


def descend(weights: Weights, gradients: Mapping[str, Tensor], lr: float) -> Weights:
    """Take one step of gradient descent."""
    return {name: torch.sub(w, gradients[name], alpha=lr) for name, w in weights.items()}


def train_at_once(step: Step, weights: Weights, work: Work, lr: float) -> tuple[Weights, Tensor]:
    """Train all clients from the same weights, stacked.

    Returns:
        Each client's change of the weights (clients, ...) by name, and the losses (clients, steps).
    """
    clients, steps = work.y.shape[:2]
    stacked = {name: w.expand(clients, *w.shape) for name, w in weights.items()}
    losses = []
    for index in range(steps):
        gradient, value = vmap(step)(stacked, *work.step(index))
        stacked = descend(stacked, gradient, lr)
        losses.append(value)
    return {name: stacked[name] - w for name, w in weights.items()}, torch.stack(losses, 1)


def stack(each: Sequence[Weights]) -> Weights:
    """Stack tensors of several clients by name, along a new first axis."""
    return {name: torch.stack([weights[name] for weights in each]) for name in each[0]}
