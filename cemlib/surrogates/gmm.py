"""`gmm`: a Gaussian mixture per class, the CEM paper's bound on the released information.

Source: Xia et al., CVPR 2025 (see `clustering`). At the end of epochs 1, 1 + `refit`, 1 + 2
`refit`, ..., EM fits K Gaussians to every class. A component has weight w_ck in its class c and
p_ck = (N_c / N) w_ck among all classes. In a batch, with responsibilities r_ik of each sample over
the components of its own class, which carry no gradient, and n = sum_i r_ik,

    a = 10 n / (w N / C), or 0.99 where that is >= 1
    S_ck = a sum_i r_ik (z_i - mu)(z_i - mu)^T / n + (1 - a) Sigma_ck      mu, Sigma as fitted
    R = (1/D) sum_ck p_ck (-log p_ck + 1/2 log det(I + S_ck / sigma^2))

or with the diagonal of S for `covariance: diagonal`.

A full covariance is stored by its eigenvectors and eigenvalues, Sigma = Q diag(lambda) Q^T. In that
basis A = I + (1 - a) Sigma / sigma^2 is diagonal, and with X the rows
sqrt(a r / (n sigma^2)) (z - mu) of the batch,

    log det(A + X^T X) = log det A + log det(I + X A^-1 X^T)

so a step factorises K matrices of the batch's size instead of C K of size D: about
B K D^2 + K B^3 / 3 operations. All classes share a matrix, in which their rows do not mix.

Everything is computed in float64, because log det(I + S / sigma^2) amplifies rounding by its
condition number; only the eigenvectors are float32, like z itself. Full covariances need 4 C K D^2
bytes (52 MB for 10 classes of 5 components in 512 dimensions), and up to ten times that while
fitting.
"""

from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from cemlib.config import surrogates as config
from cemlib.surrogates.base import Fitted, Sizes
from cemlib.surrogates.mixture import RIDGE, SMALLEST_MASS, fit_mixtures
from cemlib.surrogates.tiles import own_product, tile


class Shares(NamedTuple):
    """The contributions of a batch and of the last fit to each component."""

    member: Tensor  # (B, C) 1 where the sample is of the class, else 0
    masses: Tensor  # (C, K) n
    batch: Tensor  # (B, K) a r / n of the sample in the components of its class
    stored: Tensor  # (C, K) 1 - a

    def blended(self, squares: Tensor, variances: Tensor) -> Tensor:
        """Blend squares (B, K, S) of the batch with variances (C, K, S) of the fit."""
        weighted = (self.batch.unsqueeze(-1) * squares).flatten(1)
        return (self.member.T @ weighted).view_as(variances) + self.stored.unsqueeze(-1) * variances


class GaussianMixture(Fitted):
    """The bound of a Gaussian mixture, which is finite only with noise."""

    settings: config.Gmm
    axes: Tensor
    class_shares: Tensor

    def __init__(self, settings: config.Gmm, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, spread=(sizes["dim"],), dtype=torch.float64, **sizes)
        self.covariance = settings.covariance
        shares = torch.full_like(self.weights[:, 0], 1 / self.num_classes)
        self.register_buffer("class_shares", shares)
        if self.covariance == "full":
            self.register_buffer("axes", torch.eye(self.dim).repeat(*self.weights.shape, 1, 1))

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty, and scalars to log.

        `reached` is the share of the components with weight that hold samples of the batch,
        `variance` their mean variance, and `empty` the share of all components without weight.
        """
        coordinates = self._coordinates(z.to(self.means), y)
        squares = coordinates.square()
        shares = self._shares(squares.detach(), y)
        if self.covariance == "full":
            half_log_dets = self._full(coordinates, shares, y)
        else:
            variances = shares.blended(squares, self.variances)
            half_log_dets = (variances / self.noise_std**2).log1p().sum(-1) / 2
        p = self.class_shares.unsqueeze(1) * self.weights
        value = (torch.special.entr(p) + p * half_log_dets).sum() / self.dim
        return value.to(z), self._notes(squares.detach(), shares)

    @property
    def replayable(self) -> bool:
        """Return False where every step factorises, for which a library may wait for the device."""
        return self.covariance == "diagonal"

    def _coordinates(self, z: Tensor, y: Tensor) -> Tensor:
        """Return z - mu in the basis of each component of the sample's class, (B, K, D)."""
        apart = z.unsqueeze(1) - self.means[y]
        if self.covariance == "diagonal":
            return apart
        components = y.unsqueeze(1) * self.clusters + torch.arange(self.clusters, device=y.device)
        tiles = tile(components.flatten(), self.weights.numel(), self.axes.dtype)
        rows = apart.to(self.axes).flatten(0, 1)
        turned = own_product(rows, self.axes.flatten(0, 1), tiles)
        return turned.view_as(apart).to(apart)

    def _shares(self, squares: Tensor, y: Tensor) -> Shares:
        """Return responsibilities and blend weights from squared coordinates (B, K, D)."""
        member = (y.unsqueeze(1) == torch.arange(self.num_classes, device=y.device)).to(squares)
        variances = self.variances.clamp_min(RIDGE)
        distances = (squares / variances[y]).sum(-1)
        logs = self.weights.log() - variances.log().sum(-1) / 2
        # This stays finite for a class without a mixture, whose last factor is 0.
        logs = (logs[y] - distances / 2).clamp_min(torch.finfo(logs.dtype).min)
        responsibilities = logs.softmax(-1) * (self.weights > 0)[y]
        masses = member.T @ responsibilities
        a = self.blend(masses, self.weights)
        each = torch.where(masses > 0, a / masses, 0.0)
        return Shares(member, masses, each[y] * responsibilities, 1 - a)

    def _full(self, coordinates: Tensor, shares: Shares, y: Tensor) -> Tensor:
        """Return half the log determinants of I + S / sigma^2, (C, K)."""
        variance = self.noise_std**2
        stored = 1 + shares.stored.unsqueeze(-1) * self.variances / variance
        scale = shares.batch.unsqueeze(-1) / (variance * stored[y])
        rows = (coordinates * scale.sqrt()).transpose(0, 1)  # (K, B, D)
        together = (y.unsqueeze(1) == y).to(rows)
        products = (rows @ rows.mT) * together
        products.diagonal(dim1=-2, dim2=-1).add_(1)
        factors: Tensor = torch.linalg.cholesky_ex(products).L
        # The determinant of a class is the product of the pivots of its rows.
        pivots = factors.diagonal(dim1=-2, dim2=-1).log()  # (K, B)
        return stored.log().sum(-1) / 2 + (pivots @ shares.member).T

    def _notes(self, squares: Tensor, shares: Shares) -> dict[str, Tensor]:
        spread = shares.blended(
            squares.mean(-1, keepdim=True), self.variances.mean(-1, keepdim=True)
        ).squeeze(-1)
        used, reached = self.weights > 0, shares.masses > SMALLEST_MASS
        return {
            "classes": (used.any(1) & (shares.member.amax(0) > 0)).sum(),
            "active": reached.any(),
            "reached": reached.sum() / used.sum().clamp_min(1),
            "variance": (reached * spread).sum() / reached.sum().clamp_min(1),
            "empty": 1 - used.to(spread).mean(),
        }

    def _fit(self, z: Tensor, y: Tensor, generator: torch.Generator) -> None:
        full = self.covariance == "full"
        new = fit_mixtures(z, y, self.means, self.weights, generator, full=full)
        self.class_shares.copy_(torch.bincount(y, minlength=self.num_classes) / len(y))
        self.load_statistics(new.means, new.weights, new.covariances)

    @torch.no_grad()
    def load_statistics(self, means: Tensor, weights: Tensor, variances: Tensor) -> None:
        """Use statistics as every fitted surrogate does; full covariances may be (C, K, D, D)."""
        if variances.ndim < 4 or self.covariance == "diagonal":
            super().load_statistics(means, weights, variances)
            if self.covariance == "full":
                self.axes.copy_(torch.eye(self.dim))
            return
        super().load_statistics(means, weights, self.variances)
        for c, matrices in enumerate(variances):  # one class at a time saves memory
            spread, self.axes[c] = torch.linalg.eigh(matrices)
            self.variances[c] = spread.clamp_min(0)
