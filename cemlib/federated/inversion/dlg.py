"""Search the image whose gradient is the shared one, by L-BFGS on the squared distance.

    min over x, u of  || g(x, softmax(u)) - g* ||^2         DLG: image and soft label together
    min over x    of  || g(x, y) - g* ||^2                  iDLG: y from the last layer's gradient

Sources: Zhu, Liu and Han, "Deep leakage from gradients", NeurIPS 2019; Zhao, Mopuri and Bilen,
"iDLG: improved deep leakage from gradients", 2020. Both start from standard normal numbers. Fails
where the network is not smooth: the distance of gradients of ReLU networks is flat in pieces.
The restarts of L-BFGS in the first paper's code are left to `restarts`.
"""

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor

from cemlib.config.federated_attacks import Dlg, Idlg
from cemlib.federated.inversion.closed_form import inferred_labels, trusted_entries
from cemlib.federated.inversion.gradients import (
    Shared,
    gradient_function,
    kept,
    one_hot,
    squared_distance,
)
from cemlib.federated.inversion.lbfgs import Objective, minimise, with_slope
from cemlib.federated.inversion.reconstruction import (
    Reconstruction,
    best_of_restarts,
    normal_starts,
)
from cemlib.federated.network import FederatedNet

Unpack = Callable[[Tensor], tuple[Tensor, Tensor]]
LabelOf = Callable[[Shared], Callable[[Tensor], Tensor]]


def dlg(
    net: FederatedNet, shared: Shared, settings: Dlg, generator: torch.Generator
) -> Reconstruction:
    """Search image and label together; the label is the soft label's largest entry."""
    classes = net.classifier.out_features

    def searched(part: Shared) -> Callable[[Tensor], Tensor]:
        return lambda logits: logits.reshape(-1, part.batch, classes).softmax(-1)

    return _matched(net, shared, settings, generator, searched, shared.batch * classes)


def idlg(
    net: FederatedNet, shared: Shared, settings: Idlg, generator: torch.Generator
) -> Reconstruction:
    """Search the image of each problem, with the label that the last layer's gradient tells."""
    classes = net.classifier.out_features

    def told(part: Shared) -> Callable[[Tensor], Tensor]:
        targets = one_hot(inferred_labels(part), classes, part.prior.dtype)
        return lambda _: targets

    return _matched(net, shared, settings, generator, told, 0)


def _matched(
    net: FederatedNet,
    shared: Shared,
    settings: Dlg | Idlg,
    generator: torch.Generator,
    label_of: LabelOf,
    logits: int,
) -> Reconstruction:
    """Search points that hold an image and then so many logits, of which a label is made."""
    pixels = shared.batch * prod(shared.image_shape)

    def run(part: Shared, seeds: Sequence[int]) -> Reconstruction:
        label = label_of(part)

        def unpack(points: Tensor) -> tuple[Tensor, Tensor]:
            images = points[:, :pixels].reshape(-1, part.batch, *part.image_shape)
            return images, label(points[:, pixels:])

        objective = matching_objective(net, part, settings.mask, unpack)
        start = normal_starts(seeds, (pixels + logits,), part.prior)
        found = minimise(objective, start, settings.iterations, settings.memory)
        images, targets = unpack(found.points)
        return Reconstruction(images.clamp(0, 1), targets.argmax(-1), found.values, found.curve)

    return best_of_restarts(run, shared, settings, generator)


def matching_objective(net: FederatedNet, shared: Shared, mask: str, unpack: Unpack) -> Objective:
    """Return the squared distance of each problem's gradients, with its slope, at points (P, D)."""
    gradients = gradient_function(net)
    entries = trusted_entries(shared, mask)
    theirs = kept(shared.gradients, entries)

    def values(points: Tensor) -> Tensor:
        return squared_distance(kept(gradients(*unpack(points)), entries), theirs)

    return with_slope(values)
