"""The running class Gaussians again, in float64, one class and sample at a time.

Every sample ever seen is kept with its weight, so that means and covariances are those of the
weighted samples by definition, and nothing is updated.
"""

from collections.abc import Iterator

import torch
from surrogate_batches import NOISE_STD, assert_near, value_and_gradient
from surrogate_references import classes_of
from torch import Tensor

CLASSES, DIM = 5, 6
# Five classes, of which the last never comes: missing classes, singletons, one sample, a class met
# late, and one so large that it needs several tiles.
SEQUENCE = [
    [0, 0, 1, 1, 1, 2],
    [1, 1, 1],
    [3],
    [0, 2, 2, 0, 3],
    [2] * 14 + [1],
    [3, 3, 0, 1, 2],
    [1],
]
DOUBLINGS = [2**power for power in range(20)]


def batches(dtype: torch.dtype = torch.float32, seed: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """The sequence as features that widen from batch to batch; those of the fourth are equal."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.rand(CLASSES, DIM, generator=generator)
    for step, labels in enumerate(SEQUENCE):
        y = torch.tensor(labels)
        spread = 0.03 * step * torch.randn(len(y), DIM, generator=generator)
        z = torch.full((len(y), DIM), 0.3) if step == 3 else centres[y] + spread
        yield z.to(dtype), y


def covariance(rows: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    mean = sum(w * row for w, row in zip(weights, rows, strict=True))
    spread = [w * torch.outer(r - mean, r - mean) for w, r in zip(weights, rows, strict=True)]
    return mean, sum(spread)


def shrunk(sigma: Tensor, amount: float) -> Tensor:
    dim = len(sigma)
    return (1 - amount) * sigma + amount * sigma.trace() / dim * torch.eye(dim, dtype=sigma.dtype)


def log_det(sigma: Tensor, shrinkage: float = 0.0) -> Tensor:
    identity = torch.eye(len(sigma), dtype=sigma.dtype)
    return torch.linalg.slogdet(identity + shrunk(sigma, shrinkage) / NOISE_STD**2)[1]


def closed_form(z: Tensor, y: Tensor, shrinkage: float = 0.0) -> Tensor:
    """The bound of a batch at its own class covariances, differentiable."""
    total = z.sum() * 0
    for positions in classes_of(y):
        rows = z[positions]
        sigma = covariance(rows, torch.ones(len(rows), dtype=z.dtype) / len(rows))[1]
        total = total + len(rows) / len(z) * 0.5 * log_det(sigma, shrinkage)
    return total / z.shape[1]


class Gaussians:
    """What the surrogate should know and answer after any batches."""

    def __init__(self, *, dim=DIM, momentum=0.9, refresh=3, shrinkage=0.0):
        self.dim, self.momentum, self.refresh, self.shrinkage = dim, momentum, refresh, shrinkage
        self.rows = {c: torch.zeros(0, dim, dtype=torch.float64) for c in range(CLASSES)}
        self.weights = {c: torch.zeros(0, dtype=torch.float64) for c in range(CLASSES)}
        self.references, self.steps = [], 0

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
            self.references = [self.moments(c)[1] for c in range(CLASSES)]
        self.steps += 1

    def samples(self, c: int) -> float:
        """Samples of equal weights whose mean has the variance that it has with these."""
        return 1 / float(self.weights[c].square().sum())

    def past(self, c: int, new: int) -> float:
        if self.momentum is not None:
            return self.momentum
        window, seen = 4 * self.dim, self.samples(c)
        return min(seen / (seen + new), max(0.9, (window - new) / (window + new)))

    def precision(self, c: int) -> Tensor:
        """P, the derivative of the log determinant at the shrunk covariance."""
        sigma = shrunk(self.references[c], self.shrinkage)
        return torch.linalg.inv(sigma + NOISE_STD**2 * torch.eye(self.dim, dtype=torch.float64))

    def pull(self, c: int) -> Tensor:
        """The derivative at the plain covariance: tr(P shrunk(S)) = tr(shrunk(P) S)."""
        return shrunk(self.precision(c), self.shrinkage)

    def change(self, c: int) -> Tensor:
        return (self.pull(c) @ (self.moments(c)[1] - self.references[c])).trace()

    def at(self, c: int) -> Tensor:
        """Where the tangent touches."""
        return log_det(self.references[c], self.shrinkage)

    def over_classes(self, y: Tensor, bound) -> Tensor:
        """(1/D) sum of p_c / 2 times the bound of c."""
        shares = [(int(y[rows[0]]), len(rows) / len(y)) for rows in classes_of(y)]
        return sum(share * bound(c) / 2 for c, share in shares) / self.dim

    def value(self, y: Tensor) -> Tensor:
        return self.over_classes(y, lambda c: self.at(c) + self.change(c))

    def exact(self, y: Tensor) -> Tensor:
        """The bound itself at the running covariances."""
        return self.over_classes(y, lambda c: log_det(self.moments(c)[1], self.shrinkage))

    def gradient(self, z: Tensor, y: Tensor) -> Tensor:
        pulls = [
            self.pull(label) @ (row - self.moments(label)[0])
            for row, label in zip(z.detach().double(), y.tolist(), strict=True)
        ]
        return torch.stack(pulls) / z.numel()


def assert_step(surrogate, reference: Gaussians, z: Tensor, y: Tensor, rel: float) -> None:
    """Value and gradient of the next step against the loops."""
    value, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
    reference.see(z, y)
    assert_near(value, reference.value(y), rel)
    assert_near(gradient, reference.gradient(z, y), rel)
