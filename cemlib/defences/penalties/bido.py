"""BiDO: features that depend less on the images, and more on the labels.

Source: Peng, Liu, Zhang, Lan, Ye, Liu and Han, "Bilateral dependency optimization: defending
against model-inversion attacks", KDD 2022. Of its two measures of dependence this is the
Hilbert-Schmidt independence criterion (HSIC) of Gretton, Bousquet, Smola and Schoelkopf, ALT 2005,
normalised to [0, 1] as in Cortes, Mohri and Rostamizadeh, "Algorithms for learning kernels based on
centered alignment", JMLR 13, 2012. With Gaussian kernels of the flattened images x and features z
of a batch, of bandwidth s = 5 sqrt(D) in D dimensions as in the authors' code, and the kernel of
the labels y, which is 1 for two images of one class and 0 otherwise,

    K_ij = exp(-|x_i - x_j|^2 / 2 s^2),   Kc = K less its row and column means plus its grand mean,
    L and Lc the same of the other argument
    dep(x, z) = sum_ij Kc_ij Lc_ij / (|Kc| |Lc|),   0 where a norm is 0
    penalty   = scale (dep(x, z) - label_ratio dep(z, y))

The authors' code normalises with a regularised inverse of each kernel matrix, and adds the penalty
at several layers; here the only layer is the cut, since nothing else leaves the client.

How it fails: as `nopeek`; in a finite batch even independent samples usually have a positive
dependence. The second term draws the features of a class together, as cross-entropy does; with a
large `label_ratio` it outweighs the first.
"""

import torch
from torch import Tensor

from cemlib.config import defences as config
from cemlib.defences.penalties.base import Penalty
from cemlib.defences.penalties.nopeek import centred, distances

BANDWIDTH = 5.0  # of the Gaussian kernel, in units of sqrt(D)


class BiDO(Penalty):
    """Dependence of clean features on images, less that on labels."""

    settings: config.BiDO

    def penalty(self, images: Tensor, labels: Tensor, features: Tensor, released: Tensor) -> Tensor:  # noqa: ARG002 - one signature for all
        """Return `scale` (dep(images, features) - `label_ratio` dep(features, labels))."""
        own = gaussian_kernel(features.flatten(1))
        same = (labels[:, None] == labels).to(own.dtype)
        on_images = alignment(gaussian_kernel(images.flatten(1)), own)
        return self.settings.scale * (on_images - self.settings.label_ratio * alignment(own, same))


def gaussian_kernel(x: Tensor) -> Tensor:
    """Return the kernel (N, N) of samples (N, D), less 1.

    A constant does not change the centred kernel; without the 1, close samples keep their digits.
    """
    return torch.expm1(-distances(x).square() / (2 * BANDWIDTH**2 * x.shape[1]))


def alignment(k: Tensor, other: Tensor) -> Tensor:
    """Return the centred alignment of two symmetric kernels (N, N), in [0, 1].

    It is 0 where a centred kernel is 0. Constant features get no gradient, since distances of 0
    have none.

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [2.0]])
        >>> alignment(x @ x.T, 3 + 2 * x @ x.T)
        tensor(1.)
    """
    k, other = centred(k), centred(other)
    norms = (k * k).sum() * (other * other).sum()
    return (k * other).sum() / torch.where(norms > 0, norms, 1).sqrt()
