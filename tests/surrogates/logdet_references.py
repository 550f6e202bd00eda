"""The running class Gaussians again, in float64, one class and sample at a time.

Every sample ever seen is kept with its weight, so that means and covariances are those of the
weighted samples by definition, and nothing is updated.
"""

import torch
from surrogate_references import classes_of
from torch import Tensor

DOUBLINGS = [2**power for power in range(20)]


def covariance(rows: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    mean = sum(w * row for w, row in zip(weights, rows, strict=True))
    spread = [w * torch.outer(r - mean, r - mean) for w, r in zip(weights, rows, strict=True)]
    return mean, sum(spread)


def shrunk(sigma: Tensor, amount: float) -> Tensor:
    dim = len(sigma)
    return (1 - amount) * sigma + amount * sigma.trace() / dim * torch.eye(dim, dtype=sigma.dtype)


def log_det(sigma: Tensor, noise_std: float, shrinkage: float = 0.0) -> Tensor:
    identity = torch.eye(len(sigma), dtype=sigma.dtype)
    return torch.linalg.slogdet(identity + shrunk(sigma, shrinkage) / noise_std**2)[1]


def closed_form(z: Tensor, y: Tensor, noise_std: float, shrinkage: float = 0.0) -> Tensor:
    """The bound of a batch at its own class covariances, differentiable."""
    total = z.sum() * 0
    for positions in classes_of(y):
        rows = z[positions]
        sigma = covariance(rows, torch.ones(len(rows), dtype=z.dtype) / len(rows))[1]
        total = total + len(rows) / len(z) * 0.5 * log_det(sigma, noise_std, shrinkage)
    return total / z.shape[1]


class Gaussians:
    """What the surrogate should know and answer after any batches."""

    def __init__(self, num_classes, dim, noise_std, *, momentum, refresh, shrinkage=0.0):
        self.num_classes, self.dim, self.noise_std = num_classes, dim, noise_std
        self.momentum, self.refresh, self.shrinkage = momentum, refresh, shrinkage
        self.rows = {c: torch.zeros(0, dim, dtype=torch.float64) for c in range(num_classes)}
        self.weights = {c: torch.zeros(0, dtype=torch.float64) for c in range(num_classes)}
        self.tangents, self.steps = [], 0

    def moments(self, c: int) -> tuple[Tensor, Tensor]:
        if len(self.rows[c]) == 0:
            zeros = torch.zeros(self.dim, self.dim, dtype=torch.float64)
            return zeros[0], zeros
        return covariance(self.rows[c], self.weights[c])

    def see(self, z: Tensor, y: Tensor) -> None:
        for positions in classes_of(y):
            c, new = int(y[positions[0]]), z[positions].detach().double()
            past = self.past(c, len(new)) if len(self.rows[c]) else 0.0
            each = torch.full((len(new),), (1 - past) / len(new), dtype=torch.float64)
            self.rows[c] = torch.cat([self.rows[c], new])
            self.weights[c] = torch.cat([past * self.weights[c], each])
        if self.steps % self.refresh == 0 or (self.momentum is None and self.steps in DOUBLINGS):
            self.tangents = [self.tangent(self.moments(c)[1]) for c in range(self.num_classes)]
        self.steps += 1

    def samples(self, c: int) -> float:
        """Samples of equal weights whose mean has the variance that it has with these."""
        return 1 / float(self.weights[c].square().sum())

    def past(self, c: int, new: int) -> float:
        if self.momentum is not None:
            return self.momentum
        window, seen = 4 * self.dim, self.samples(c)
        return min(seen / (seen + new), max(0.9, (window - new) / (window + new)))

    def tangent(self, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        noise = self.noise_std**2 * torch.eye(self.dim, dtype=torch.float64)
        sigma_ref = shrunk(sigma, self.shrinkage)
        precision = torch.linalg.inv(sigma_ref + noise)
        return log_det(sigma, self.noise_std, self.shrinkage), precision, sigma_ref

    def value(self, y: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for positions in classes_of(y):
            c = int(y[positions[0]])
            at, precision, sigma_ref = self.tangents[c]
            change = shrunk(self.moments(c)[1], self.shrinkage) - sigma_ref
            total += len(positions) / len(y) * 0.5 * (at + (precision @ change).trace())
        return total / self.dim

    def exact(self, y: Tensor) -> Tensor:
        """The bound itself at the running covariances."""
        total = torch.zeros((), dtype=torch.float64)
        for positions in classes_of(y):
            sigma = self.moments(int(y[positions[0]]))[1]
            bound = 0.5 * log_det(sigma, self.noise_std, self.shrinkage)
            total += len(positions) / len(y) * bound
        return total / self.dim

    def gradient(self, z: Tensor, y: Tensor) -> Tensor:
        pulls = []
        for row, label in zip(z.detach().double(), y.tolist(), strict=True):
            _, precision, _ = self.tangents[label]
            offset = row - self.moments(label)[0]
            plain, mean = precision @ offset, precision.trace() / self.dim
            pulls.append((1 - self.shrinkage) * plain + self.shrinkage * mean * offset)
        return torch.stack(pulls) / z.numel()
