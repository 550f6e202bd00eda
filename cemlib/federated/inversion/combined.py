"""Search near the class mean for the image with the shared features and gradients.

    min over x of  1 - cos(g(x, y), g*) + |F(x) - F*|^2 / |F*|^2 + prior_weight |x - m_y|^2 / D

The label y and the features F* are known in closed form (`closed_form`), except for entries that
may have been pruned. There are often fewer features than pixels (D); of the images that have them,
the one nearest to m_y, the attacker's mean image of the class, is taken. The features of a batch
are a mixture, so there their term is left out. The search is by L-BFGS: on smooth networks it ends
orders of magnitude lower than signed Adam.

The attack is meant for trained networks, where matching gradients alone, from random numbers,
fails: the gradient of an image that is classified well is small, and far from the image the
distance has no slope towards it. The distance of features has a slope everywhere, and the mean
image is near.

The parts are from Geiping et al., NeurIPS 2020, and Balunovic et al., ICLR 2022; their sum is ours.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from cemlib.config.federated_attacks import Combined, PriorImage
from cemlib.federated.inversion import closed_form, search
from cemlib.federated.inversion.gradients import Shared, cosine_distance
from cemlib.federated.inversion.lbfgs import Minimum, Objective, minimise
from cemlib.federated.network import BIAS, FederatedNet

_SPREAD = 0.1  # standard deviation of the random starts around the class's mean image


def combined(
    net: FederatedNet, shared: Shared, settings: Combined, seeds: Sequence[int]
) -> search.Answer:
    """Search by L-BFGS from random points around the mean images of the classes."""
    labels = search.labels_of(net, shared)
    means = shared.prior[labels]
    start = means + _SPREAD * search.normal_starts(seeds, means.shape[1:], means)
    loss = loss_of(net, shared, labels, settings)
    return labels, minimise(loss, start, settings.iterations)


def mean_image(
    net: FederatedNet,  # noqa: ARG001 - all attacks are called with the same arguments
    shared: Shared,
    settings: PriorImage,  # noqa: ARG001 - it has no options
    seeds: Sequence[int],  # noqa: ARG001 - it draws nothing
) -> search.Answer:
    """Return the attacker's mean image of each inferred label."""
    labels = closed_form.inferred_labels(shared)
    none = shared.gradients[BIAS].sum(1) * 0  # NaN where there is no gradient
    return labels, Minimum(shared.prior[labels], none, none[:, None])


def loss_of(net: FederatedNet, shared: Shared, labels: Tensor, settings: Combined) -> Objective:
    """Return the loss (P,) at images (P, B, C, H, W) with labels (P, B)."""
    misfit = search.gradient_misfit(net, shared, settings.mask, cosine_distance)
    targets, prior = search.targets_of(net, shared, labels), search.prior_distance(shared, labels)
    terms: list[Objective] = [
        lambda images: settings.prior_weight * prior(images),
        lambda images: misfit(images, targets),
    ]
    if shared.batch == 1:
        terms.append(feature_misfit(net, shared, settings.mask))
    return lambda images: torch.stack([term(images) for term in terms]).sum(0)


def feature_misfit(net: FederatedNet, shared: Shared, mask: str) -> Objective:
    """Return the relative squared error of the known features as a function of images."""
    entries = closed_form.trusted_entries(shared, mask)
    theirs, known = closed_form.recovered_features(shared.gradients, entries)
    theirs = theirs * known
    scale = theirs.square().sum(1)
    scale = torch.where(scale > 0, scale, torch.inf)  # no relative error if all features are 0

    def misfit(images: Tensor) -> Tensor:
        return (net.features(images.flatten(0, 1)) * known - theirs).square().sum(1) / scale

    return misfit
