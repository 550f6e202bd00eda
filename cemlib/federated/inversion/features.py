"""Search near the class mean for the image with the shared features, or features and gradients.

    features:  min over x of  |F(x) - F*|^2 / |F*|^2 + prior_weight |x - m_y|^2 / D
    combined:  the same  +  1 - cos(g(x, y), g*)

The label y and the features F* are known in closed form (`closed_form`), except for entries that
may have been pruned, and m_y is the attacker's mean image of the class. The search is by L-BFGS
from points around m_y: on smooth networks it ends orders of magnitude lower than signed Adam. There
are often fewer features than pixels; of the images that have them, the one nearest to m_y is taken.
`mean_image` returns m_y itself, the ceiling of every other attack's error.

`combined` is the strongest attack here. Matching gradients alone, from random numbers, finds the
image on a network with initial weights, and fails on a trained one: the gradient of an image that
is classified well is small, and far from the image the distance has no slope towards it. The
distance of features has one everywhere, and the mean image is near.

The parts are from Geiping et al., NeurIPS 2020, and Balunovic et al., ICLR 2022; their sum is ours.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from cemlib.config.federated_attacks import Combined, Features, PriorImage
from cemlib.federated.inversion import closed_form, search
from cemlib.federated.inversion.gradients import Shared, cosine_distance
from cemlib.federated.inversion.lbfgs import Objective
from cemlib.federated.inversion.search import Reconstruction, Search
from cemlib.federated.network import BIAS, FederatedNet

_SPREAD = 0.1  # standard deviation of the random starts around the class's mean image


def near_means(net: FederatedNet, shared: Shared, settings: Features | Combined) -> Search:
    """Return a search by L-BFGS from random points around the mean images of the classes."""
    labels = search.labels_of(net, shared)
    means = shared.prior[labels]

    def start(seeds: Sequence[int]) -> Tensor:
        return means + _SPREAD * search.normal_starts(seeds, means.shape[1:], means)

    loss = loss_of(net, shared, labels, settings)
    return search.minimised(loss, start, labels, settings.iterations)


def mean_image(
    net: FederatedNet,  # noqa: ARG001 - all attacks are called with the same arguments
    shared: Shared,
    settings: PriorImage,  # noqa: ARG001 - it has no options
) -> Search:
    """Return a search that returns the attacker's mean image of each inferred label."""
    labels = closed_form.inferred_labels(shared)
    none = shared.gradients[BIAS].sum(1) * 0  # NaN where there is no gradient
    found = Reconstruction(shared.prior[labels], labels, none, none[:, None])
    return lambda seeds: found  # noqa: ARG005 - it draws nothing


def loss_of(
    net: FederatedNet, shared: Shared, labels: Tensor, settings: Features | Combined
) -> Objective:
    """Return the loss (P,) of `features` or `combined` at images (P, B, C, H, W), labels (P, B).

    The features of a batch are a mixture, and `combined` does without them; `features` needs
    gradients of single images (B = 1).
    """
    prior, terms = search.prior_distance(shared, labels), list[Objective]()
    if settings.kind == "combined":
        misfit = search.gradient_misfit(net, shared, settings.mask, cosine_distance)
        targets = search.targets_of(net, shared, labels)
        terms.append(lambda images: misfit(images, targets))
    if shared.batch == 1:
        terms.append(feature_misfit(net, shared, settings.mask))

    def objective(images: Tensor) -> Tensor:
        parts = [settings.prior_weight * prior(images), *(term(images) for term in terms)]
        return torch.stack(parts).sum(0)

    return objective


def feature_misfit(net: FederatedNet, shared: Shared, mask: str) -> Objective:
    """Return the relative squared error of the known features as a function of images."""
    entries = closed_form.trusted_entries(shared, mask)
    theirs, known = closed_form.recovered_features(shared.gradients, entries)
    theirs = theirs * known
    scale = theirs.square().sum(1).clamp(min=torch.finfo(theirs.dtype).tiny)

    def misfit(images: Tensor) -> Tensor:
        return (net.features(images.flatten(0, 1)) * known - theirs).square().sum(1) / scale

    return misfit
