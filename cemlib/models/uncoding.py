"""The most probable input of a sparse coding, given a noisy release of its output.

    z~ = s(soft(u W^T, t) W) + N(0, v I),   u = m + L e,   e ~ N(0, I)

    u^ = m + L e^,   e^ = argmin over e of |z~ - s(soft(u W^T, t) W)|^2 / v + |e|^2

W mixes all features, so no convolution can undo it, and the logistic function s saturates, so no
linear estimate can. An attacker who knows W, t and v, and the mean m and the covariance L L^T of u
on images of its own, can do better. Each of `STEPS` Gauss-Newton steps from e = 0 is solved with
`CONJUGATE` conjugate gradients (Nocedal and Wright, "Numerical Optimization", 2006, sections 5.1
and 10.3). With soft' = 1, since t is small, the mean Hessian over the attacker's images is

    I + L^T G diag(mean of s'^2) G L / v,   G = W^T W

L is turned such that this is diagonal, and its inverse is the preconditioner. The gradient is
exact.

How it fails: the prior is a single normal distribution, and features of images are not normal. The
steps are too few where most outputs are saturated, or with noise below `LEAST`, which counts as
`LEAST`.
"""

import torch
from torch import Tensor, nn

from cemlib.models.layers import SparseCoding

STEPS, CONJUGATE = 5, 4
LEAST = 0.01  # least standard deviation of the noise
LEAST_VARIANCE = 1e-4  # of u in every direction, as a multiple of the mean one
SMALLEST = 1e-20  # smallest divisor, for a step whose residual is 0
CHUNK = 4096


class Uncoding(nn.Module):
    """Maps releases (N, D) to the most probable inputs (N, D) of the client's sparse coding."""

    mean: Tensor  # m, (D,)
    root: Tensor  # L, (D, D)
    mixed: Tensor  # G L, (D, D)
    weight: Tensor  # W, (D, D)
    inverse: Tensor  # of the mean Hessian's diagonal, (D,)
    threshold: Tensor  # t, ()
    variance: Tensor  # v, ()

    def __init__(self, dim: int) -> None:
        super().__init__()
        for name in ("mean", "inverse"):
            self.register_buffer(name, torch.zeros(dim))
        for name in ("root", "mixed", "weight"):
            self.register_buffer(name, torch.zeros(dim, dim))
        for name in ("threshold", "variance"):
            self.register_buffer(name, torch.zeros(()))

    @torch.no_grad()
    def fit(self, coding: SparseCoding, inputs: Tensor, noise_std: float) -> None:
        """Set all tensors, in float64; `inputs` (N, D) are those of the attacker's images."""
        variance = max(noise_std, LEAST) ** 2
        mean = inputs.mean(0, dtype=torch.float64)
        centred = inputs.double() - mean
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(inputs))
        root = vectors * (values.clamp_min(0) + LEAST_VARIANCE * values.mean()).sqrt()
        weight = coding.weight.double()
        mixed = weight.T @ (weight @ root)
        outputs = (coding(part).sigmoid() for part in torch.split(inputs, CHUNK))
        squared = torch.cat([_slope(part).square() for part in outputs])
        curvature = mixed.T @ (squared.mean(0, dtype=torch.float64)[:, None] * mixed) / variance
        values, vectors = torch.linalg.eigh(curvature)
        self.mean.copy_(mean)
        self.root.copy_(root @ vectors)
        self.mixed.copy_(mixed @ vectors)
        self.weight.copy_(weight)
        self.inverse.copy_(1 / (1 + values.clamp_min(0)))
        self.threshold.fill_(coding.threshold)
        self.variance.fill_(variance)

    @torch.no_grad()
    def forward(self, released: Tensor) -> Tensor:
        """Map releases (N, D) to inputs (N, D)."""
        e = torch.zeros_like(released)
        for _ in range(STEPS):
            slope, downhill = self._gradient(e, released)
            e = e + self._step(slope.square(), downhill)
        return self.mean + e @ self.root.T

    def _gradient(self, e: Tensor, released: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slopes of s, and the negative gradient, halved, (N, D) each."""
        codes = (self.mean + e @ self.root.T) @ self.weight.T
        soft = codes - codes.clamp(-self.threshold, self.threshold)
        expected = (soft @ self.weight).sigmoid()
        slope = _slope(expected)
        pull = (slope * (released - expected)) @ self.weight.T * (codes.abs() > self.threshold)
        return slope, pull @ self.weight @ self.root / self.variance - e

    def _step(self, squared: Tensor, residual: Tensor) -> Tensor:
        """Return the step (N, D) from squared slopes of s and the halved negative gradient."""
        step = torch.zeros_like(residual)
        direction = self.inverse * residual
        product = (residual * direction).sum(1, keepdim=True)
        for _ in range(CONJUGATE):
            seen = (squared * (direction @ self.mixed.T)) @ self.mixed
            curved = direction + seen / self.variance
            length = product / (direction * curved).sum(1, keepdim=True).clamp_min(SMALLEST)
            step = step + length * direction
            residual = residual - length * curved
            before, product = product, (residual.square() * self.inverse).sum(1, keepdim=True)
            direction = self.inverse * residual + product / before.clamp_min(SMALLEST) * direction
        return step


def _slope(logistic: Tensor) -> Tensor:
    return logistic * (1 - logistic)
