"""Local training: some steps of gradient descent on every client, one by one or all at once.

At once, the clients' weights are stacked and a step is mapped over them. Both ways compute the
same, but for the order in which floating point adds up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.func import vmap

from cemlib.config.federated_attacks import DpSgd
from cemlib.federated.client import Masking, descend, gradients, perturbed_gradients
from cemlib.federated.network import FederatedNet, Weights
from cemlib.federated.private import private_gradients

Step = Callable[..., tuple[Weights, Tensor]]
"""Of weights, x, y and what a step draws: the gradients and the loss."""


@dataclass(frozen=True)
class Work:
    """What some clients train on in a round.

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


def step_of(net: FederatedNet, masking: Masking | None, privacy: DpSgd | None) -> Step:
    """The gradient that a client's step descends: plain, masked, or private."""
    if privacy is not None:

        def private(w: Weights, x: Tensor, y: Tensor, noise: Weights) -> tuple[Weights, Tensor]:
            return private_gradients(net, w, x, y, privacy.clip, noise)

        return private
    if masking is None:
        return partial(gradients, net)

    def masked(w: Weights, x: Tensor, y: Tensor, columns: Tensor) -> tuple[Weights, Tensor]:
        found, value, _ = perturbed_gradients(net, w, x, y, masking, columns)
        return found, value

    return masked


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
        gradient, value = vmap(step)(stacked, *_step(work, index))
        stacked = descend(stacked, gradient, lr)
        losses.append(value)
    return {name: stacked[name] - w for name, w in weights.items()}, torch.stack(losses, 1)


def stack(each: Sequence[Weights]) -> Weights:
    """Tensors of several clients by name, stacked along a new first axis."""
    return {name: torch.stack([weights[name] for weights in each]) for name in each[0]}


def _step(work: Work, index: int) -> list[Tensor | Weights]:
    """What one step of every client takes, each with the clients as its first axis."""
    taken: list[Tensor | Weights] = [work.x[:, index], work.y[:, index]]
    if work.columns is not None:
        taken.append(work.columns[:, index])
    if work.noise is not None:
        taken.append({name: tensor[:, index] for name, tensor in work.noise.items()})
    return taken
