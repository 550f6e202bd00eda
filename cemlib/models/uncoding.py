"""The most probable input of a sparse coding, given a noisy release of its output.

    z~ = s(soft(u W^T, t) W) + N(0, v I),   u = m + L e,   e ~ N(0, I)

    u^ = m + L e^,   e^ = argmin over e of |z~ - s(soft(u W^T, t) W)|^2 / v + |e|^2

W mixes all features, so no convolution can undo it, and the logistic function s saturates, so no
linear estimate can. An attacker who knows W, t and v, and the mean m and the covariance L L^T of u
on images of its own, can, as far as the noise allows. Each of `STEPS` Gauss-Newton steps from e = 0
is solved with `CONJUGATE` conjugate gradients, with the inverse of the mean Hessian over the
attacker's images as the preconditioner. In the Hessian soft' = 1, since t is small; the gradient is
exact.

Source: Nocedal and Wright, "Numerical Optimization", 2006, sections 5.1 and 10.3.

How it fails: the prior is one normal distribution, which knows less about features than images do,
and with noise below `LEAST` the steps are too few.
"""

import torch
from torch import Tensor, nn

from cemlib.models.layers import SparseCoding

STEPS, CONJUGATE = 5, 4
LEAST = 0.01  # least standard deviation of the noise that the steps are made for
CHUNK = 4096
RANK = 1e-4  # least variance of u in every direction, as a multiple of the mean one
SMALLEST = 1e-20  # smallest divisor, for a step whose residual is 0


class Uncoding(nn.Module):
    """Maps releases (N, D) to the most probable inputs (N, D) of the client's sparse coding.

    All tensors are buffers, and zero until `fit`.

    Args:
        dim: The number D of features.
    """

    mean: Tensor  # m, (D,)
    root: Tensor  # L, (D, D)
    codes: Tensor  # W L, (D, D)
    mixed: Tensor  # W^T W L, (D, D)
    inverse: Tensor  # of the mean Hessian, (D, D)
    weight: Tensor  # W, (D, D)
    threshold: Tensor  # t, ()
    variance: Tensor  # v, ()

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        for name in ("root", "codes", "mixed", "inverse", "weight"):
            self.register_buffer(name, torch.zeros(dim, dim))
        for name in ("threshold", "variance"):
            self.register_buffer(name, torch.zeros(()))

    @torch.no_grad()
    def fit(self, coding: SparseCoding, inputs: Tensor, noise_std: float) -> None:
        """Set all tensors, computed in float64.

        Args:
            coding: The client's sparse coding.
            inputs: Inputs (N, D) of the coding, of the attacker's images.
            noise_std: Standard deviation of the noise of the releases.
        """
        variance = max(noise_std, LEAST) ** 2
        mean = inputs.mean(0, dtype=torch.float64)
        values, vectors = torch.linalg.eigh(torch.cov(inputs.T.double(), correction=0))
        root = vectors * (values.clamp_min(0) + RANK * values.mean()).sqrt()
        weight = coding.weight.double()
        codes = weight @ root
        mixed = weight.T @ codes
        parts = torch.split(inputs, CHUNK)
        slopes = torch.cat([_slope(coding(part).sigmoid()).square() for part in parts])
        hessian = mixed.T @ (slopes.mean(0, dtype=torch.float64)[:, None] * mixed) / variance
        hessian.diagonal().add_(1)
        found = {"mean": mean, "root": root, "codes": codes, "mixed": mixed, "weight": weight}
        found |= {"inverse": torch.linalg.inv(hessian)}
        for name, tensor in found.items():
            getattr(self, name).copy_(tensor)
        self.threshold.fill_(coding.threshold)
        self.variance.fill_(variance)

    @torch.no_grad()
    def forward(self, released: Tensor) -> Tensor:
        """Map releases (N, D) to inputs (N, D)."""
        e = torch.zeros_like(released)
        for _ in range(STEPS):
            codes = (self.mean + e @ self.root.T) @ self.weight.T
            expected = (_soft(codes, self.threshold) @ self.weight).sigmoid()
            slope = _slope(expected)
            pull = (slope * (released - expected)) @ self.weight.T * (codes.abs() > self.threshold)
            e = e + self._solve(slope.square(), pull @ self.codes / self.variance - e)
        return self.mean + e @ self.root.T

    def _solve(self, squared: Tensor, residual: Tensor) -> Tensor:
        """Return the Gauss-Newton step (N, D) by preconditioned conjugate gradients.

        Args:
            squared: The squared slopes of s, (N, D).
            residual: The negative gradient, halved, (N, D).
        """
        step = torch.zeros_like(residual)
        direction = preconditioned = residual @ self.inverse
        product = (residual * preconditioned).sum(1, keepdim=True)
        for _ in range(CONJUGATE):
            seen = (squared * (direction @ self.mixed.T)) @ self.mixed
            curved = direction + seen / self.variance
            length = product / (direction * curved).sum(1, keepdim=True).clamp_min(SMALLEST)
            step = step + length * direction
            residual = residual - length * curved
            preconditioned = residual @ self.inverse
            before, product = product, (residual * preconditioned).sum(1, keepdim=True)
            direction = preconditioned + product / before.clamp_min(SMALLEST) * direction
        return step


def _soft(codes: Tensor, threshold: Tensor) -> Tensor:
    return codes - codes.clamp(-threshold, threshold)


def _slope(logistic: Tensor) -> Tensor:
    return logistic * (1 - logistic)
