"""Search for an image of small total variation whose gradient is parallel to the shared one.

    min over x in [0, 1] of  1 - cos(g(x, y), g*) + tv_weight TV(x) + prior_weight |x - m_y|^2 / D

The label y is read off the last layer's gradient. The norm of a gradient only tells how far the
training has progressed; the angle says more, and clipping does not change it. For gradients that
are mostly noise, the prior gives the posterior mode (Balunovic, Dimitrov, Staab and Vechev,
"Bayesian framework for gradient leakage", ICLR 2022, in its simplest form): m_y, of D pixels, is
the attacker's mean image of the class.

Source: Geiping, Bauermeister, Droege and Moeller, "Inverting gradients - how easy is it to break
privacy in federated learning?", NeurIPS 2020: Adam on the signs of the gradient, with the learning
rate schedule of their code, but from one start, and the best image is kept, not the last.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cemlib.config.federated_attacks import Cosine
from cemlib.federated.inversion import search
from cemlib.federated.inversion.gradients import Shared, absolute_variation, cosine_distance
from cemlib.federated.inversion.lbfgs import Minimum, Objective, chosen
from cemlib.federated.network import FederatedNet
from cemlib.numerics.optim import Adam

_DROPS = (3 / 8, 5 / 8, 7 / 8)  # shares of the iterations after which the rate falls to a tenth


def cosine(
    net: FederatedNet, shared: Shared, settings: Cosine, seeds: Sequence[int]
) -> search.Answer:
    """Search for the images of each problem."""
    labels = search.labels_of(net, shared)
    objective = cosine_objective(net, shared, labels, settings)
    start = search.normal_starts(seeds, (shared.batch, *shared.prior.shape[1:]), shared.prior)
    if settings.prior_weight > 0:
        start = shared.prior[labels]
    return labels, signed_descent(objective, start, settings.iterations, settings.lr)


def cosine_objective(
    net: FederatedNet, shared: Shared, labels: Tensor, settings: Cosine
) -> Objective:
    """Return the loss (P,) of images (P, B, C, H, W) with labels (P, B)."""
    misfit = search.gradient_misfit(net, shared, settings.mask, cosine_distance)
    targets, prior = search.targets_of(net, shared, labels), search.prior_distance(shared, labels)

    def objective(images: Tensor) -> Tensor:
        rough = settings.tv_weight * absolute_variation(images)
        far = settings.prior_weight * prior(images)
        return misfit(images, targets) + rough + far

    return objective


def signed_descent(objective: Objective, start: Tensor, iterations: int, lr: float) -> Minimum:
    """Minimise P functions of images, from `start` (P, ...) clipped to [0, 1].

    Return the best images of each: those at the start, of infinite value, if no value is finite.
    """
    images = nn.Parameter(start.detach().clamp(0, 1))
    optimiser = Adam([images])
    best, lowest = images.detach().clone(), images.new_full((len(start),), torch.inf)
    curve = []
    for step in range(iterations + 1):
        values = objective(images)
        better = values.detach() < lowest
        best = chosen(better, images.detach(), best)
        lowest = torch.where(better, values.detach(), lowest)
        curve.append(values.detach())
        if step < iterations:
            (slope,) = torch.autograd.grad(values.sum(), images)
            images.grad = slope.sign()
            drops = sum(step >= drop * iterations for drop in _DROPS)
            optimiser.step(lr * 0.1**drops)
            with torch.no_grad():
                images.clamp_(0, 1)
    return Minimum(best, lowest, torch.stack(curve, dim=1))
