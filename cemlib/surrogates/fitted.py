"""What the surrogates with a mixture per class, fitted at every epoch's end, have in common.

They keep means, weights and variances of K clusters of each of C classes as buffers. In a batch the
variance of a cluster with n members there and stored weight pi is the blend

    v = a v_batch + (1 - a) v_stored,   a = 10 n / (pi N / C), or 0.99 where that is >= 1

with N training images, so that few samples of a batch count as many of the fit.
"""

from typing import ClassVar

import torch
from torch import Tensor

from cemlib.surrogates.base import Surrogate, at_least

BLEND = 10.0  # a batch member counts as this many of the stored statistics' members
LARGEST_BLEND = 0.99


def blend(members: Tensor, weights: Tensor, class_size: Tensor) -> Tensor:
    """Weight `a` of the batch's variance against the stored one.

    Args:
        members: batch members n of each cluster.
        weights: stored weight pi of each cluster, same shape.
        class_size: N / C, mean number of training images of a class.
    """
    wanted, stored = BLEND * members, weights * class_size
    return torch.where(wanted < stored, wanted / stored, LARGEST_BLEND)


class Fitted(Surrogate):
    """A surrogate with statistics of a whole training set.

    Args:
        dim: number of feature dimensions D.
        num_classes: number of classes C.
        noise_std: standard deviation sigma of the released noise.
        clusters: clusters per class K.
        num_train: number of training images N; None takes it from each `fit`.
        var_threshold: rho.
        variances: shape of the stored variances.
        dtype: floating type of the statistics.

    The statistics are buffers, so a restored state continues bit for bit. Before the first `fit`
    all weights are 0 and so is the penalty.
    """

    start_epoch: ClassVar[int] = 2
    fits = True
    means: Tensor
    weights: Tensor
    variances: Tensor
    num_train: Tensor

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        noise_std: float,
        clusters: int,
        num_train: int | None,
        var_threshold: float,
        variances: tuple[int, ...],
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(
            dim=dim, num_classes=num_classes, noise_std=noise_std, var_threshold=var_threshold
        )
        at_least("clusters", clusters, 1)
        at_least("num_train", 1 if num_train is None else num_train, 1)
        self.clusters = clusters
        self._takes_num_train = num_train is None
        self._seed = 0
        self.register_buffer("means", torch.zeros(num_classes, clusters, dim, dtype=dtype))
        self.register_buffer("weights", torch.zeros(num_classes, clusters, dtype=dtype))
        self.register_buffer("variances", torch.zeros(variances, dtype=dtype))
        self.register_buffer("num_train", torch.tensor(num_train or 0))

    @property
    def class_size(self) -> Tensor:
        """N / C, mean number of training images of a class."""
        return self.num_train.to(torch.float64) / self.num_classes

    def fit(self, z: Tensor, y: Tensor) -> None:
        """Take the statistics of the clean features of the training images, (N, D) and (N,)."""
        self._check(z, y)
        generator = torch.Generator().manual_seed(self._seed)
        device = self.means.device
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            self._fit(z.to(device), y.to(device), generator)
        if self._takes_num_train:
            self.num_train.fill_(len(y))

    def _fit(self, z: Tensor, y: Tensor, generator: torch.Generator) -> None:
        """Fit the buffers; each surrogate defines it."""
        raise NotImplementedError

    def reseed(self, seed: int) -> None:
        """Choose the k-means++ draws of classes that have no clusters yet."""
        self._seed = seed

    def statistics(self) -> dict[str, Tensor]:
        """Copies of means (C, K, D), weights (C, K) and mean variances (C, K); 0 before a fit."""
        spread = self.variances if self.variances.ndim == 2 else self.variances.mean(-1)
        found = {"means": self.means, "weights": self.weights, "variances": spread}
        return {name: values.detach().float().clone() for name, values in found.items()}

    def _check_statistics(
        self, owner: str, means: Tensor, weights: Tensor, variances: Tensor, *allowed: torch.Size
    ) -> None:
        """Refuse other shapes than those of the buffers, and than the allowed ones of variances."""
        _check_shape(f"{owner}: means", means, self.means.shape)
        _check_shape(f"{owner}: weights", weights, self.weights.shape)
        _check_shape(f"{owner}: variances", variances, *allowed)

    def _check_size(self, owner: str) -> None:
        if not self.num_train:
            raise ValueError(f"{owner}: num_train is unknown; give it when building or fit first")

    def _store(self, **statistics: Tensor) -> None:
        """Copy values into buffers of their names."""
        with torch.no_grad():
            for name, values in statistics.items():
                getattr(self, name).copy_(values)


def _check_shape(name: str, values: Tensor, *allowed: torch.Size) -> None:
    if values.shape not in allowed:
        shapes = " or ".join(str(tuple(shape)) for shape in allowed)
        raise ValueError(
            f"{name} has shape {tuple(values.shape)}, "
            f"expected {shapes} for its classes, clusters and dimensions"
        )
