"""NoPeek: reduce the distance correlation of features and images.

Sources: Vepakomma, Singh, Gupta and Raskar, "NoPeek: information leakage reduction to share
activations in distributed deep learning", ICDM Workshops 2020; distance correlation by Szekely,
Rizzo and Bakirov, "Measuring and testing dependence by correlation of distances", Annals of
Statistics 35(6), 2007.

With `a_ij = |x_i - x_j|` and `b_ij = |z_i - z_j|` over the flattened images and features of a
batch, and A, B the same matrices less their row and column means plus their grand mean:

    dCov^2(x, z) = mean_ij A_ij B_ij,    dVar^2(x) = dCov^2(x, x)
    dCor(x, z)   = sqrt( dCov^2(x, z) / sqrt( dVar^2(x) dVar^2(z) ) ),  0 where a variance is 0
    penalty      = scale dCor(x, z)

How it fails: this is the biased V-statistic. Independent samples of a finite batch have a positive
dCor, near 1 if the batch is small compared with the dimensions (exactly 1 for two samples), so
values for different batch sizes or cuts cannot be compared. A low dCor does not stop a trained
decoder, for which small differences of features are enough.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.config import defences as config
from cemlib.defences.penalties.base import Penalty


class NoPeek(Penalty):
    """Distance correlation between images and clean features, times `scale`."""

    settings: config.NoPeek

    def penalty(self, images: Tensor, labels: Tensor, features: Tensor, released: Tensor) -> Tensor:  # noqa: ARG002 - one signature for all
        """Return `scale` dCor(images, features)."""
        return self.settings.scale * distance_correlation(images.flatten(1), features.flatten(1))


def distance_correlation(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance correlation (not its square), in [0, 1], of x (N, D) and y (N, E).

    If it or a variance is 0, the gradient is 0; distances of 0 have no gradient.

    Example:
        >>> x = torch.arange(4.0)[:, None]
        >>> distance_correlation(x, 3 - 2 * x)
        tensor(1.)
    """
    a, b = centred(distances(x)), centred(distances(y))
    deviations = _root((a * a).mean()) * _root((b * b).mean())
    return _root((a * b).mean() / torch.where(deviations > 0, deviations, 1))


def centred(matrix: Tensor) -> Tensor:
    """Return a symmetric matrix (N, N) less its row and column means plus its grand mean."""
    means = matrix.mean(0)
    return matrix - means - means[:, None] + means.mean()


def distances(x: Tensor) -> Tensor:
    """Return Euclidean distances (N, N) of samples (N, D).

    They are 0 for equal samples; products would lose the digits of small distances.
    """
    rows, columns = torch.triu_indices(len(x), len(x), 1, device=x.device)
    upper = x.new_zeros(len(x), len(x)).index_put((rows, columns), F.pdist(x))
    return upper + upper.T


def _root(x: Tensor) -> Tensor:
    """Return the square root, or 0 with gradient 0 where x <= 0."""
    zero = x <= 0
    return torch.where(zero, 0, torch.where(zero, 1, x).sqrt())
