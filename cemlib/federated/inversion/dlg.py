"""Search for the image whose gradient is the shared one, by L-BFGS on the squared distance.

    min over x, u of  || g(x, softmax(u)) - g* ||^2         DLG: image and soft label together
    min over x    of  || g(x, y) - g* ||^2                  iDLG: y from the last layer's gradient

Sources: Zhu, Liu and Han, "Deep leakage from gradients", NeurIPS 2019, without its code's restarts;
Zhao, Mopuri and Bilen, "iDLG: improved deep leakage from gradients", 2020. Both fail on networks
that are not smooth: the distance of gradients of ReLU networks is piecewise flat.
"""

from collections.abc import Sequence

from torch import Tensor

from cemlib.config.federated_attacks import Dlg, Idlg
from cemlib.federated.inversion import search
from cemlib.federated.inversion.gradients import Shared, squared_distance
from cemlib.federated.inversion.lbfgs import minimise
from cemlib.federated.network import FederatedNet


def dlg(net: FederatedNet, shared: Shared, settings: Dlg, seeds: Sequence[int]) -> search.Answer:
    """Search for image and soft label together; the label is the soft label's largest entry."""
    misfit = search.gradient_misfit(net, shared, settings.mask, squared_distance)
    classes, pixels = net.classifier.out_features, shared.batch * shared.prior[0].numel()

    def unpack(points: Tensor) -> tuple[Tensor, Tensor]:
        images = points[:, :pixels].reshape(-1, shared.batch, *shared.prior.shape[1:])
        return images, points[:, pixels:].reshape(-1, shared.batch, classes).softmax(-1)

    start = search.normal_starts(seeds, (pixels + shared.batch * classes,), shared.prior)
    found = minimise(lambda points: misfit(*unpack(points)), start, settings.iterations)
    images, targets = unpack(found.points)
    return targets.argmax(-1), found._replace(points=images)


def idlg(net: FederatedNet, shared: Shared, settings: Idlg, seeds: Sequence[int]) -> search.Answer:
    """Search for the images, with the labels read off the last layer's gradient."""
    misfit = search.gradient_misfit(net, shared, settings.mask, squared_distance)
    labels = search.labels_of(net, shared)
    targets = search.targets_of(net, shared, labels)
    start = search.normal_starts(seeds, (shared.batch, *shared.prior.shape[1:]), shared.prior)
    return labels, minimise(lambda images: misfit(images, targets), start, settings.iterations)
