"""Search for images from random starts, with the terms that several attacks share in their loss."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.federated.inversion.closed_form import inferred_labels, trusted_entries
from cemlib.federated.inversion.gradients import Gradients, Shared, gradient_function, kept
from cemlib.federated.inversion.lbfgs import Minimum, Objective, chosen
from cemlib.federated.network import BIAS, FederatedNet

_ORDERS = 128  # orders of labels whose gradients are computed at once


class Reconstruction(NamedTuple):
    """The answers of an attack on P shared gradients of B images each."""

    images: Tensor  # (P, B, C, H, W) in [0, 1], the reconstructions
    labels: Tensor  # (P, B), the inferred labels
    loss: Tensor  # (P,), the attack's own loss; not finite where it failed
    curve: Tensor  # (P, T), the loss during the search


Answer = tuple[Tensor, Minimum]
"""The labels (P, B) that an attack infers, and where its search for the images ended."""


def normal_starts(seeds: Sequence[int], shape: Sequence[int], like: Tensor) -> Tensor:
    """Draw normal numbers (P, *shape), each row from its own seed; on the CPU, for any device."""
    rows = [torch.randn(*shape, generator=torch.Generator().manual_seed(s)) for s in seeds]
    return torch.stack(rows).to(like)


def gradient_misfit(
    net: FederatedNet, shared: Shared, mask: str, distance: Callable[[Gradients, Gradients], Tensor]
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function from images and label distributions to the distance (P,) of gradients.

    It counts only the entries of the shared gradients that the attack trusts.
    """
    gradients = gradient_function(net, shared.steps, shared.lr)
    entries = trusted_entries(shared, mask)
    theirs = kept(shared.gradients, entries)

    def misfit(images: Tensor, targets: Tensor) -> Tensor:
        return distance(kept(gradients(images, targets), entries), theirs)

    return misfit


def labels_of(net: FederatedNet, shared: Shared) -> Tensor:
    """Return the inferred labels (P, B), those of several local steps in the order of the steps.

    A step changes the network's answers to the images of later ones. So the order shows in the
    gradient of the last layer's bias, almost regardless of the images: labels of different steps
    are swapped, the best pair first, as long as this brings the gradient at the mean images of the
    classes nearer to the shared one. A mask, which the simulated steps lack, and more images make
    the order less certain.
    """
    labels = inferred_labels(shared)
    if shared.steps == 1:
        return labels
    swaps, problems = _swaps(shared.batch, shared.steps), torch.arange(len(labels))
    gradients = gradient_function(net, shared.steps, shared.lr)
    for _ in range(shared.batch):
        orders = labels[:, swaps]  # (P, 1 + pairs, B), the present one first
        parts = torch.split(orders.flatten(0, 1), _ORDERS)
        ours = torch.cat(
            [gradients(shared.prior[y], targets_of(net, shared, y))[BIAS] for y in parts]
        )
        apart = ours.view(*orders.shape[:2], -1) - shared.gradients[BIAS][:, None]
        distances = apart.square().sum(-1)
        lowest, best = distances.min(1)
        better = lowest < distances[:, 0]
        if not bool(better.any()):
            break
        labels = chosen(better, orders[problems, best], labels)
    return labels


def _swaps(batch: int, steps: int) -> Tensor:
    """Return the positions (1 + pairs, B) as they are, and with two of different steps swapped."""
    step = torch.arange(batch) // (batch // steps)
    first, second = torch.triu(step[:, None] != step).nonzero().T
    rows, pairs = torch.arange(batch).repeat(1 + len(first), 1), torch.arange(1, 1 + len(first))
    rows[pairs, first], rows[pairs, second] = second, first
    return rows


def targets_of(net: FederatedNet, shared: Shared, labels: Tensor) -> Tensor:
    """Return labels (P, B) as distributions (P, B, classes)."""
    return F.one_hot(labels, net.classifier.out_features).to(shared.prior)


def prior_distance(shared: Shared, labels: Tensor) -> Objective:
    """Return the mean squared distance of images to the mean images of their classes."""
    expected = shared.prior[labels]
    return lambda images: (images - expected).square().flatten(1).mean(1)
