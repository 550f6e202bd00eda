"""Search the image near the mean of its class that has the features, or features and gradients.

    features:  min over x of  |F(x) - F*|^2 / |F*|^2 + prior_weight |x - m_y|^2 / D
    combined:  the same  +  1 - cos(g(x, y), g*)

with the label y and the features F* in closed form (`closed_form`), entries that may have been
pruned left out, and m_y the attacker's mean image of the class. By L-BFGS from around m_y: on
smooth networks it ends orders of magnitude lower than signed Adam. There are often fewer features
than pixels: of the images that have them, the one nearest to m_y is taken. `mean_image` answers m_y
itself, the ceiling of every other attack's error.

`combined` is the strongest attack here. Matching gradients alone, from random numbers, finds the
image on a network at its random start, and fails on a trained one: where an image is classified
well its gradient is small, and far from it the distance has no slope towards it. The features have
one everywhere, and the mean image is near.

The parts are of Geiping et al., NeurIPS 2020, and Balunovic et al., ICLR 2022; their sum is ours.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cemlib.config.federated_attacks import Combined, Features, PriorImage
from cemlib.federated.inversion.closed_form import (
    inferred_labels,
    recovered_features,
    trusted_entries,
)
from cemlib.federated.inversion.cosine import gradient_misfit
from cemlib.federated.inversion.gradients import Shared
from cemlib.federated.inversion.lbfgs import Objective, minimise, with_slope
from cemlib.federated.inversion.reconstruction import (
    Reconstruction,
    best_of_restarts,
    normal_starts,
)
from cemlib.federated.network import BIAS, FederatedNet

Misfit = Callable[[Tensor], Tensor]

_SPREAD = 0.1  # of the random starts around the class's mean image


def features(
    net: FederatedNet, shared: Shared, settings: Features, generator: torch.Generator
) -> Reconstruction:
    """Return the images with the recovered features.

    Raises:
        ValueError: the gradients are of more than one image each.
    """
    if shared.batch != 1:
        raise ValueError(
            f"the attack 'features' needs gradients of single images, these are of {shared.batch}:"
            " leave it out, or set batch_size: 1"
        )
    return _searched(net, shared, settings, generator, feature_objective)


def combined(
    net: FederatedNet, shared: Shared, settings: Combined, generator: torch.Generator
) -> Reconstruction:
    """Return the images of each problem; features of a batch, a mixture, are not used."""
    return _searched(net, shared, settings, generator, combined_objective)


def mean_image(
    net: FederatedNet,  # noqa: ARG001 - every attack is called alike
    shared: Shared,
    settings: PriorImage,  # noqa: ARG001 - it has no options
    generator: torch.Generator,  # noqa: ARG001 - it draws nothing
) -> Reconstruction:
    """Return the attacker's mean image of each inferred label."""
    labels = inferred_labels(shared)
    none = shared.gradients[BIAS].sum(1) * 0  # NaN where there is no gradient
    return Reconstruction(shared.prior[labels], labels, none, none[:, None])


def feature_objective(net: FederatedNet, shared: Shared, settings: Features) -> Objective:
    """Return the loss of `features`, with its slope, at points (P, D)."""
    return _near_class_means(shared, settings, [feature_misfit(net, shared, settings.mask)])


def combined_objective(net: FederatedNet, shared: Shared, settings: Combined) -> Objective:
    """Return the loss of `combined`, with its slope, at points (P, B * C * H * W)."""
    misfits = [gradient_misfit(net, shared, settings.mask, inferred_labels(shared))]
    if shared.batch == 1:
        misfits.append(feature_misfit(net, shared, settings.mask))
    return _near_class_means(shared, settings, misfits)


def feature_misfit(net: FederatedNet, shared: Shared, mask: str) -> Misfit:
    """Return the squared error of the known features of images (P, 1, C, H, W), relative."""
    theirs, known = recovered_features(shared.gradients, trusted_entries(shared, mask))
    theirs = theirs * known
    scale = theirs.square().sum(1).clamp(min=torch.finfo(theirs.dtype).tiny)

    def misfit(images: Tensor) -> Tensor:
        return (net.features(images.flatten(0, 1)) * known - theirs).square().sum(1) / scale

    return misfit


def _near_class_means(
    shared: Shared, settings: Features | Combined, misfits: Sequence[Misfit]
) -> Objective:
    expected = _class_means(shared)

    def values(points: Tensor) -> Tensor:
        images = points.view(-1, shared.batch, *shared.image_shape)
        far = settings.prior_weight * (points - expected).square().mean(1)
        return torch.stack([far, *(misfit(images) for misfit in misfits)]).sum(0)

    return with_slope(values)


def _searched(
    net: FederatedNet,
    shared: Shared,
    settings: Features | Combined,
    generator: torch.Generator,
    objective: Callable[..., Objective],
) -> Reconstruction:
    def run(part: Shared, seeds: Sequence[int]) -> Reconstruction:
        means = _class_means(part)
        start = means + _SPREAD * normal_starts(seeds, means.shape[1:], means)
        found = minimise(
            objective(net, part, settings), start, settings.iterations, settings.memory
        )
        images = found.points.view(-1, part.batch, *part.image_shape).clamp(0, 1)
        return Reconstruction(images, inferred_labels(part), found.values, found.curve)

    return best_of_restarts(run, shared, settings, generator)


def _class_means(shared: Shared) -> Tensor:
    """Return the attacker's mean images of the inferred classes, as points (P, B * C * H * W)."""
    return shared.prior[inferred_labels(shared)].flatten(1)
