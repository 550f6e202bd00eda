"""Train clients: the gradient of a step, masked or private, and local descent of all at once.

Everything is a function of weights by name, so that one client's step can be mapped over a stack of
clients, and an attack can differentiate through it. Trained at once, the clients' weights are
stacked and a step is mapped over them; one by one gives the same but for the order in which
floating point adds up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from cemlib.config.federated_attacks import DpSgd
from cemlib.federated.mask import Order, mask, masked, scores
from cemlib.federated.network import FederatedNet, Weights, features, loss
from cemlib.federated.private import private_gradients

Step = Callable[..., tuple[Weights, Tensor]]
"""Function of weights, x, y and what a step draws, to the gradients and the loss."""


@dataclass(frozen=True)
class Masking:
    """Say how the gradient is masked.

    Attributes:
        alpha: Share (float) or number (int) of features that are masked.
        beta: Share (float) or number (int) of outputs whose column of H is the mask.
        order: Which features have the smallest scores (`cemlib.federated.mask`).
        images: So many of a step's images, the first, decide the scores; None for all.
    """

    alpha: float
    beta: float
    order: Order = "ours"
    images: int | None = None


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


def mixed(x: Tensor, pseudo: Tensor, lam: Tensor | float) -> Tensor:
    """Return lam x + (1 - lam) pseudo, both (B, C, H, W), lam a number or (B, 1, 1, 1)."""
    return lam * x + (1 - lam) * pseudo


def gradients(net: FederatedNet, weights: Weights, x: Tensor, y: Tensor) -> tuple[Weights, Tensor]:
    """Return the gradient of the mean cross-entropy by parameter name, and the loss."""
    found, value = grad_and_value(lambda w: loss(net, w, x, y))(weights)
    return found, value


def step_mask(net: FederatedNet, weights: Weights, x: Tensor, how: Masking) -> Tensor:
    """Return the mask (l,) of a step on images (B, C, H, W)."""
    found = scores(partial(features, net, weights), x[: how.images], how.order)
    return mask(found, how.alpha)


def masked_gradients(
    net: FederatedNet, weights: Weights, x: Tensor, y: Tensor, columns: Tensor, how: Masking
) -> tuple[Weights, Tensor]:
    """Return the gradients of a client's step under a mask, by parameter name, and the loss.

    Args:
        net: the network.
        weights: its weights at the step.
        x: images (B, C, H, W) as trained on, mixed already.
        y: labels (B,).
        columns: (outputs,) of 0 and 1, the columns of H that the mask replaces.
        how: the mask's settings.
    """
    found, value = gradients(net, weights, x, y)
    return masked(found, step_mask(net, weights, x, how), columns), value


def step_of(net: FederatedNet, masking: Masking | None, privacy: DpSgd | None) -> Step:
    """Return the gradient that a client's step descends: plain, masked, or private."""
    if privacy is not None:
        return partial(private_gradients, net, clip=privacy.clip)
    if masking is not None:
        return partial(masked_gradients, net, how=masking)
    return partial(gradients, net)


def descend(weights: Weights, gradients: Mapping[str, Tensor], lr: float) -> Weights:
    """Take one step of gradient descent."""
    return {name: torch.sub(w, gradients[name], alpha=lr) for name, w in weights.items()}


def train_at_once(step: Step, weights: Weights, work: Work, lr: float) -> tuple[Weights, Tensor]:
    """Train all clients from the same weights, stacked.

    Args:
        step: see `step_of`.
        weights: the server's, by name.
        work: what they train on.
        lr: learning rate.

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
