"""`logdet`: the bound on the released information with one Gaussian per class.

Source: this project. A Gaussian has the largest entropy of all distributions with its covariance
(Cover and Thomas, "Elements of Information Theory", theorem 8.6.5). So with the covariance Sigma_c
of the features of class c, p_c = m_c / B and noise of variance sigma^2,

    R = (1/D) sum_c p_c 1/2 log det(I + Sigma_c / sigma^2)

bounds, per dimension, the information in z + noise beyond the class. Each Sigma_c is the covariance
of an exponentially weighted mixture of batches, with weight 1 - d for this batch, which has mean m
and covariance S (divided by m_c), and d for the past:

    Sigma <- d Sigma + (1 - d) (S + d (m - mu)(m - mu)^T),   mu <- d mu + (1 - d) m

With `momentum` given, d is the momentum, or 0 for the first batch of a class. By default it follows
from D, the m_c samples of the class in this batch, and the effective number n_c of samples in its
moments so far. All samples weigh the same at first, and n_c tends to 4 D, or to more where .9 gives
more:

    d = min( n_c / (n_c + m_c), max(.9, (4 D - m_c) / (4 D + m_c)) )
    1/n_c <- d^2 / n_c + (1 - d)^2 / m_c

log det is concave, so its tangent at an older Sigma_ref is an upper bound. Between two
factorisations the value is that tangent,

    log det(I + Sigma / sigma^2) <= log det(I + Sigma_ref / sigma^2) + tr(P (Sigma - Sigma_ref))

with P = (Sigma_ref + sigma^2 I)^-1. The gradient estimates that of the whole data set from this
batch's scatter about mu: dR/dz_i = P_c (z_i - mu_c) / (B D), the Mahalanobis pull. For the first
batch of a class, if it is factorised, this is exactly the gradient of R. With shrinkage s every
Sigma is replaced by (1-s) Sigma + s tr(Sigma)/D I, which never lowers the bound.

Statistics are stored and inverted in float64: rounding is amplified by the condition number of
I + Sigma / sigma^2, easily 1e3 to 1e4, and float32 would leave three digits of the gradient.
"""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from cemlib.config import surrogates as config
from cemlib.surrogates.base import Sizes, Surrogate
from cemlib.surrogates.tiles import Tiles, add_scatter, own_product, tile

WINDOW = 4  # samples per dimension that a covariance averages by default
LEAST = 0.9  # smallest default weight of the past, once it has enough samples


def trace_of_product(a: Tensor, b: Tensor) -> Tensor:
    """Return `tr(A B)` of symmetric matrices (C, D, D), (C,)."""
    return torch.einsum("cij,cij->c", a, b)


def shrink_(matrices: Tensor, amount: float) -> Tensor:
    """Replace each matrix A of (C, D, D) by `(1 - s) A + s tr(A)/D I`, in place."""
    diagonal = matrices.diagonal(dim1=-2, dim2=-1)
    mean = diagonal.mean(-1, keepdim=True)
    matrices.mul_(1 - amount)
    diagonal.add_(amount * mean)
    return matrices


class LogDet(Surrogate):
    """The class-conditional Gaussian bound, which is finite only with noise.

    A checkpoint holds means, covariances and numbers of samples. The first step of an epoch
    factorises the covariances, so training restored between epochs continues bit for bit.
    """

    settings: config.Gaussian
    start_epoch: ClassVar[int] = 2
    means: Tensor
    covariances: Tensor
    samples: Tensor
    precisions: Tensor
    log_dets: Tensor
    traces: Tensor

    def __init__(self, settings: config.Gaussian, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        self.momentum, self.refresh = settings.momentum, settings.refresh
        self._steps, self._new = 0, self.momentum is None
        square = torch.zeros(self.num_classes, self.dim, self.dim, dtype=torch.float64)
        self.register_buffer("means", square[:, 0].clone())
        self.register_buffer("covariances", square)
        self.register_buffer("samples", square[:, 0, 0].clone())
        self.register_buffer("precisions", square.clone(), persistent=False)
        self.register_buffer("log_dets", square[:, 0, 0].clone(), persistent=False)
        self.register_buffer("traces", square[:, 0, 0].clone(), persistent=False)

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty; logs variance and `stale`, the value's drift since factorising."""
        with torch.no_grad():
            rows = z.to(self.means.dtype)
            tiles = tile(y, self.num_classes, rows.dtype)
            self._average(rows, y, tiles)
            if self._due:
                self._factorise()
            self._steps += 1
            # The matrices are symmetric; transposed, they are read faster.
            pull = own_product(rows - self.means[y], self.precisions.mT, tiles) / z.numel()
            change = trace_of_product(self.precisions, self.covariances) - self.traces
            bounds = self.log_dets + change
            value = (tiles.sizes @ bounds) / (2 * z.numel())
        straight = (z * pull.to(z)).sum()
        notes = self._notes(tiles, (change / bounds.clamp_min(1e-12)).abs())
        return value.to(z) + (straight - straight.detach()), notes

    def _average(self, rows: Tensor, y: Tensor, tiles: Tiles) -> None:
        past = self._past(tiles.sizes).unsqueeze(1)
        sizes = tiles.sizes.clamp_min(1).unsqueeze(1)
        means = tiles.member.T @ rows / sizes
        shift = means - self.means
        # The rows sum to 0 about their own mean, so about a centre moved by sqrt(d) shift their
        # scatter has the additional d shift shift^T of the formula.
        centred = rows - (means - past.sqrt() * shift)[y]
        self.covariances.mul_(past.unsqueeze(2))
        add_scatter(self.covariances, ((1 - past) / sizes).sqrt()[y] * centred, tiles)
        self.means.add_((1 - past) * shift)
        self._count(past.squeeze(1), tiles.sizes)

    def _past(self, sizes: Tensor) -> Tensor:
        """Return the weight d of the past in the moments of each class, (C,)."""
        pooled = self.samples / (self.samples + sizes).clamp_min(1)
        if self.momentum is None:
            window = WINDOW * self.dim
            kept = ((window - sizes) / (window + sizes)).clamp_min(LEAST).minimum(pooled)
        else:
            kept = self.momentum * (self.samples > 0).to(sizes)
        return torch.where(sizes > 0, kept, 1.0)

    def _count(self, past: Tensor, sizes: Tensor) -> None:
        """Update the effective samples, the inverse of the sum of squared weights."""
        before = past.square() / self.samples.clamp_min(1)
        now = (1 - past).square() / sizes.clamp_min(1)
        seen = (self.samples > 0) | (sizes > 0)
        self.samples.copy_(torch.where(seen, 1 / (before + now), 0.0))

    def _factorise(self) -> None:
        """Compute the tangent of log det at the running covariances of all classes."""
        variance = self.noise_std**2
        scaled = shrink_(self.covariances / variance, self.settings.shrinkage)
        scaled.diagonal(dim1=-2, dim2=-1).add_(1)
        # Unlike `cholesky` and `cholesky_inverse`, these functions read no error code on the host.
        factor = torch.linalg.cholesky_ex(scaled).L
        unit = torch.eye(self.dim, dtype=factor.dtype, device=factor.device)
        root = torch.linalg.solve_triangular(factor, unit.expand_as(factor), upper=False)
        # tr(P shrink(Sigma)) = tr(shrink(P) Sigma), so only the plain Sigma is needed from here on.
        self.precisions.copy_(shrink_(root.mT @ root, self.settings.shrinkage).div_(variance))
        self.log_dets.copy_(2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1))
        self.traces.copy_(trace_of_product(self.precisions, self.covariances))

    def _notes(self, tiles: Tiles, stale: Tensor) -> dict[str, Tensor]:
        present = (tiles.sizes > 0).to(stale)
        classes = present.sum()
        spread = self.covariances.diagonal(dim1=-2, dim2=-1).mean(-1)
        return {
            "classes": classes,
            "active": torch.ones_like(classes),
            "variance": (present @ spread) / classes,
            "stale": (present @ stale) / classes,
        }

    def forget(self) -> None:
        """Start the moments of each class again."""
        for past in (self.samples, self.means, self.covariances):
            past.zero_()

    def reseed(self, seed: int) -> None:  # noqa: ARG002 - draws nothing
        """Factorise at the next step, so that a resumed training does the same steps."""
        self._steps = 0
        self._new = self.momentum is None and not self.samples.any()

    @property
    def _due(self) -> bool:
        """Return whether the next step factorises: every `refresh` steps.

        The first epoch also does so at every power of two: a covariance of few samples has empty
        directions, along which its tangent would rise with 1 / sigma^2 for `refresh` steps.
        """
        doubled = self._new and self._steps & (self._steps - 1) == 0
        return doubled or self._steps % self.refresh == 0

    @property
    def replayable(self) -> bool:
        """Return whether the next step has no factorisation."""
        return not self._due

    def replayed(self) -> None:
        """Count the step towards the next factorisation."""
        self._steps += 1
