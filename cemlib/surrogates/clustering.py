"""`clustering`: hinge on the scalar variance of K-means clusters, the CEM baseline.

Source: Xia et al., "Theoretical Insights in Model Inversion Robustness and Conditional Entropy
Maximization for Collaborative Inference Systems", CVPR 2025, and its public code.

At each epoch's end every class is clustered; a cluster keeps its centroid mu, weight pi = n / N_c
and variance vbar (mean over members and dimensions of (z - mu)^2). In a batch each sample joins its
nearest own-class centroid; for a cluster with n members there, N training images and C classes,

    a = 10 n / (pi N / C), or 0.99 where that is >= 1
    v = a mean_{i,d} (z_i - mu)^2 + (1 - a) vbar
    l = pi relu(log(v + gamma) - log(rho sigma^2 + gamma))      gate "log"
    l = pi (v + 0.001)                                          gate "linear"
    R = (1 / classes in the batch) sum of l over the clusters in the batch

The gradient flows through z in the batch's variance only. (The public code reads pi and vbar from
another class's row; here they are the cluster's own.)

How it fails: gamma (0.01) is far above rho sigma^2 (7.8e-5 at sigma 0.025), so the hinge hardly
pulls once v is well under gamma. Centroids are an epoch old. A sample nearest to a centroid of
weight 0 is not penalised until the next fit.
"""

import math
from typing import ClassVar, get_args

import torch
from torch import Tensor

from cemlib.surrogates.base import Surrogate, above_zero, at_least, one_of
from cemlib.surrogates.kmeans import Clusters, fit_clusters
from cemlib.surrogates.moments import Gate, count, group

BLEND = 10.0  # a batch member counts as this many of the stored statistics' members
LARGEST_BLEND = 0.99
LINEAR_OFFSET = 0.001


def nearest_own(z: Tensor, y: Tensor, means: Tensor) -> Tensor:
    """Index of the nearest centroid of the sample's own class: (B, D), (B,), (C, K, D) to (B,)."""
    with torch.no_grad():
        return (z.unsqueeze(1) - means[y]).square().sum(-1).argmin(1)


def blend(members: Tensor, weights: Tensor, class_size: Tensor) -> Tensor:
    """Weight `a` of the batch's variance against the stored one.

    Args:
        members: batch members n of each cluster.
        weights: stored weight pi of each cluster, same shape.
        class_size: N / C, mean number of training images of a class.
    """
    wanted, stored = BLEND * members, weights * class_size
    return torch.where(wanted < stored, wanted / stored, LARGEST_BLEND)


def cluster_penalty(
    v: Tensor, weights: Tensor, *, gate: Gate, gamma: float, threshold: float
) -> Tensor:
    """Penalty `l` of clusters with variance v and weight pi; threshold is rho sigma^2."""
    if gate == "linear":
        return weights * (v + LINEAR_OFFSET)
    return weights * ((v + gamma).log() - math.log(threshold + gamma)).relu()


class Clustering(Surrogate):
    """The CEM baseline; see the module's text for the formula.

    Args:
        dim: number of feature dimensions D.
        num_classes: number of classes C.
        noise_std: standard deviation sigma of the released noise.
        clusters: clusters per class K.
        num_train: number of training images N; None takes it from each `fit`.
        gate: form of the hinge.
        gamma: offset inside the logarithms.
        var_threshold: rho.

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
        clusters: int = 5,
        num_train: int | None = None,
        gate: Gate = "log",
        gamma: float = 0.01,
        var_threshold: float = 0.125,
    ) -> None:
        super().__init__(
            dim=dim, num_classes=num_classes, noise_std=noise_std, var_threshold=var_threshold
        )
        at_least("clusters", clusters, 1)
        one_of("gate", gate, get_args(Gate))
        above_zero("gamma", gamma)
        at_least("num_train", 1 if num_train is None else num_train, 1)
        self.clusters, self.gate, self.gamma = clusters, gate, gamma
        self._takes_num_train = num_train is None
        self._seed = 0
        self.register_buffer("means", torch.zeros(num_classes, clusters, dim))
        self.register_buffer("weights", torch.zeros(num_classes, clusters))
        self.register_buffer("variances", torch.zeros(num_classes, clusters))
        self.register_buffer("num_train", torch.tensor(num_train or 0))

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """See the base class; logs the mean variance v, active hinges and empty clusters."""
        nearest = nearest_own(z, y, self.means)
        cells = group(y * self.clusters + nearest, self.weights.numel(), smallest=1, dtype=z.dtype)
        squares = (z - self.means[y, nearest]).square().mean(1)
        v, weights = self._blended(cells.total(squares), cells.sizes, cells.labels)
        threshold = self.var_threshold * self.noise_std**2
        each = cells.valid * cluster_penalty(
            v, weights, gate=self.gate, gamma=self.gamma, threshold=threshold
        )
        present = (count(y, self.num_classes) > 0).sum()
        return each.sum() / present, {
            "variance": cells.mean(v.detach()),
            "active": cells.mean((each > 0).to(z)),
            "empty": (self.weights == 0).to(z).mean(),
        }

    def _blended(self, squares: Tensor, members: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Variance v and weight pi of the given clusters, from their sums over the batch."""
        weights, stored = self.weights.flatten()[cells], self.variances.flatten()[cells]
        a = blend(members, weights, self.num_train.to(members) / self.num_classes)
        return a * squares / members.clamp_min(1) + (1 - a) * stored, weights

    def fit(self, z: Tensor, y: Tensor) -> None:
        """Cluster the clean features of the training images, (N, D) with labels (N,)."""
        self._check(z, y)
        generator = torch.Generator().manual_seed(self._seed)
        previous = Clusters(self.means, self.weights, self.variances)
        with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
            new = fit_clusters(z.to(self.means), y.to(self.means.device), previous, generator)
        if self._takes_num_train:
            self.num_train.fill_(len(y))
        self._store(new.means, new.weights, new.variances)

    def reseed(self, seed: int) -> None:
        """Choose the k-means++ draws of classes that have no clusters yet."""
        self._seed = seed

    def load_statistics(self, means: Tensor, weights: Tensor, variances: Tensor) -> None:
        """Use statistics fitted elsewhere.

        Args:
            means: centroids, (C, K, D).
            weights: share of each class's samples, (C, K).
            variances: (C, K), or (C, K, D), of which the mean over the dimensions is used.

        Raises:
            ValueError: a shape does not fit, or `num_train` is unknown.
        """
        if variances.ndim == 3:
            variances = variances.mean(-1)
        for name, values in (("means", means), ("weights", weights), ("variances", variances)):
            expected = getattr(self, name).shape
            if values.shape != expected:
                raise ValueError(
                    f"clustering: {name} has shape {tuple(values.shape)}, "
                    f"expected {tuple(expected)} for its classes, clusters and dimensions"
                )
        if not self.num_train:
            raise ValueError("clustering: num_train is unknown; give it when building or fit first")
        self._store(means, weights, variances)

    def statistics(self) -> dict[str, Tensor]:
        """Copies of means (C, K, D), weights (C, K) and variances (C, K); all 0 before a fit."""
        names = ("means", "weights", "variances")
        return {name: getattr(self, name).detach().clone() for name in names}

    def _store(self, means: Tensor, weights: Tensor, variances: Tensor) -> None:
        with torch.no_grad():
            self.means.copy_(means)
            self.weights.copy_(weights)
            self.variances.copy_(variances)
