"""`clustering`: a hinge on the variance of K-means clusters, the CEM baseline.

Source: Xia et al., "Theoretical Insights in Model Inversion Robustness and Conditional Entropy
Maximization for Collaborative Inference Systems", CVPR 2025, and its public code.

At the end of epochs 1, 1 + `refit`, 1 + 2 `refit`, ... the features of every class are clustered. A
cluster keeps its centroid mu, its weight pi = n / N_c and its variance vbar, the mean of (z - mu)^2
over members and dimensions. In a batch each sample joins the nearest centroid of its own class. For
a cluster with n members in the batch, N training images and C classes,

    a = 10 n / (pi N / C), or 0.99 where that is >= 1
    v = a mean_{i,d} (z_i - mu)^2 + (1 - a) vbar
    l = pi relu(log(v + gamma) - log(rho sigma^2 + gamma))      gate "log"
    l = pi (v + 0.001)                                          gate "linear"
    R = (1 / classes in the batch) sum of l over the clusters in the batch

With `variance: diagonal` v and vbar are per dimension and l is the mean over the dimensions. The
public code reads pi and vbar from the wrong row: for the u-th class in the batch, from the class of
the u-th sample in label order, nearly always the first class. `reference_indexing` repeats that.

With `form: batch` v is the mean of `|z_i - mu|^2` over the members of a cluster, without vbar, and
each class c, with m_c of the batch's B samples, has one hinge,

    s_c = sum_k pi_k v_k over its clusters in the batch,   tau = rho sigma^2
    l_c = relu(log(s_c + 1e-6) - log(tau + 1e-6)), or s_c with gate "linear"
    R = sum_c (m_c / B) l_c
"""

import math
from typing import Unpack

import torch
from torch import Tensor

from cemlib.config import surrogates as config
from cemlib.surrogates.base import Fitted, Sizes
from cemlib.surrogates.groups import Groups, count, group
from cemlib.surrogates.kmeans import fit_clusters

LINEAR_OFFSET = 0.001
BATCH_OFFSET = 1e-6


def log_hinge(v: Tensor, offset: float, threshold: float) -> Tensor:
    """Return `relu(log(v + offset) - log(threshold + offset))`."""
    return ((v + offset).log() - math.log(threshold + offset)).relu()


class Clustering(Fitted):
    """The CEM baseline; the module's docstring has the formula."""

    settings: config.Clustering

    def __init__(self, settings: config.Clustering, **sizes: Unpack[Sizes]) -> None:
        spread = (sizes["dim"],) if settings.variance == "diagonal" else ()
        super().__init__(settings, spread=spread, **sizes)
        self.ceiling = settings.var_threshold * self.noise_std**2

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty; logs the mean variance v and the share of empty clusters."""
        with torch.no_grad():  # the nearest centroid in a sample's own class, (B,)
            nearest = (z.unsqueeze(1) - self.means[y]).square().sum(-1).argmin(1)
        cells = group(y * self.clusters + nearest, self.weights.numel(), smallest=1, dtype=z.dtype)
        rows = self._rows(y, cells.labels)
        weights = self.weights.flatten()[rows] * cells.valid
        squares = (z - self.means[y, nearest]).square()
        classes = torch.arange(self.num_classes, device=z.device).unsqueeze(1)
        # Whether a row is a cluster of the class with members, (C, R).
        owner = ((classes == cells.labels // self.clusters) & (cells.sizes > 0)).to(z)
        if self.settings.form == "batch":
            value, notes = self._batch_form(squares, weights, cells, owner)
        else:
            value, notes = self._blended_form(squares, weights, cells, rows)
            value = value / owner.amax(1).sum()
        return value, notes | {
            "classes": ((owner @ weights) > 0).sum(),
            "empty": (self.weights == 0).to(z).mean(),
        }

    def _rows(self, y: Tensor, cells: Tensor) -> Tensor:
        """Return the clusters whose statistics are used for the given clusters."""
        if not self.settings.reference_indexing:
            return cells
        rank = (count(y, self.num_classes) > 0).cumsum(0) - 1
        read = y.sort().values[rank.clamp_min(0)]  # the class that the public code reads, (C,)
        return read[cells // self.clusters] * self.clusters + cells % self.clusters

    def _blended_form(
        self, squares: Tensor, weights: Tensor, cells: Groups, rows: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum of l over the clusters in the batch, from squared deviations (B, D)."""
        if self.settings.variance == "scalar":
            squares = squares.mean(1, keepdim=True)
        stored = self.variances.flatten(0, 1)[rows].view(len(rows), -1)
        members = cells.sizes.unsqueeze(1)
        a = self.blend(members, weights.unsqueeze(1))
        v = a * cells.total(squares) / members.clamp_min(1) + (1 - a) * stored
        linear = self.settings.gate == "linear"
        hinge = v + LINEAR_OFFSET if linear else log_hinge(v, self.settings.gamma, self.ceiling)
        each = weights.unsqueeze(1) * hinge
        return each.mean(1).sum(), {
            "variance": cells.mean(v.detach().mean(1)),
            "active": cells.mean((each > 0).to(v).mean(1)),
        }

    def _batch_form(
        self, squares: Tensor, weights: Tensor, cells: Groups, owner: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty of `form: batch`, from squared deviations (B, D)."""
        v = cells.total(squares.sum(1)) / cells.sizes.clamp_min(1)
        each = owner @ (weights * v)
        if self.settings.gate == "log":
            each = log_hinge(each, BATCH_OFFSET, self.ceiling)
        shares = owner @ cells.sizes / len(squares)
        return (shares * each).sum(), {
            "variance": cells.mean(v.detach()),
            "active": (each > 0).sum() / owner.amax(1).sum(),
        }

    def _fit(self, z: Tensor, y: Tensor, generator: torch.Generator) -> None:
        new = fit_clusters(z.to(self.means), y, self.means, self.weights, generator)
        self.load_statistics(new.means, new.weights, new.variances)
