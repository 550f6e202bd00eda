"""Surrogates, batches that cover the shapes and the odd cases, and how results are compared."""

import torch
from torch import Tensor

from cemlib.surrogates import Surrogate, build

NOISE_STD = 0.025

# name: (labels, dimensions, classes)
BATCHES: dict[str, tuple[list[int], int, int]] = {
    "balanced": ([0, 1, 2, 3] * 4, 8, 4),
    "unequal": ([0] * 9 + [1] * 3 + [2] * 4 + [4] * 2 + [5], 12, 6),
    "missing classes": ([7, 2, 7, 2, 7, 7, 2], 16, 20),
    "singletons": ([0, 1, 2, 3, 4], 8, 5),
    "singletons beside pairs": ([0, 0, 1, 3, 3, 2], 4, 4),
    "one sample": ([1], 8, 3),
    "one class": ([0] * 6, 4, 1),
    "equal features": ([0, 0, 0, 1, 1, 1, 2], 8, 3),
    "wide": ([0, 1, 1, 0, 2, 2, 1, 0, 2, 0], 64, 3),
}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def shuffled_labels(sizes: list[int]) -> Tensor:
    """Labels of classes with so many samples."""
    y = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return y[torch.randperm(len(y), generator=generator())]


def batch(name: str, seed: int = 0) -> tuple[Tensor, Tensor, int]:
    """Features in (0, 1) about distinct class centres, labels, and the number of classes."""
    labels, dim, num_classes = BATCHES[name]
    y, draws = torch.tensor(labels), generator(seed)
    centres = torch.randn(num_classes, dim, generator=draws)
    z = centres[y] + 0.5 * torch.randn(len(y), dim, generator=draws)
    if name == "equal features":
        z = z[:1].repeat(len(y), 1)
    return z.sigmoid(), y, num_classes


def value_and_gradient(function, z: Tensor, *others: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Value of function(z) and its gradients at z and at the other tensors, 0 where unused."""
    z = z.clone().requires_grad_()
    value = function(z)
    gradients = torch.autograd.grad(value, [z, *others], allow_unused=True, materialize_grads=True)
    return value.detach(), list(gradients)


def assert_near(actual: Tensor, expected: Tensor, rel: float) -> None:
    """Compare with the largest entry of the expected tensor as the scale."""
    assert actual.shape == expected.shape
    error = (actual.double() - expected.double()).abs().max()
    assert error <= rel * expected.abs().max() + 1e-12, f"error {error:.3g} on {expected}"


def assert_gradients_near(actual: list[Tensor], expected: list[Tensor], rel: float) -> None:
    """Compare the gradient at z, and those at all parameters as one vector.

    A single parameter's gradient may cancel to 0 in theory, which no precision resolves, and that
    of the attention nearly cancels for a class of two: parameters get ten times the tolerance.
    """
    assert_near(actual[0], expected[0], rel)
    together = [torch.cat([part.flatten() for part in parts[1:]]) for parts in (actual, expected)]
    assert_near(*together, 10 * rel)


def built(name: str, num_classes: int, dim: int, *, seed: int = 0, **options) -> Surrogate:
    """A surrogate whose parameters are drawn from a seed; its own stream begins at 11."""
    torch.manual_seed(seed)
    sizes = {"dim": dim, "num_classes": num_classes, "noise_std": NOISE_STD}
    surrogate = build(name, **(sizes | options))
    surrogate.reseed(11)
    return surrogate


def of_seed(surrogate: Surrogate, z: Tensor, y: Tensor, seed: int = 11) -> Tensor:
    """The penalty with the same random numbers each time."""
    surrogate.reseed(seed)
    return surrogate(z, y)


def normalised(z: Tensor) -> Tensor:
    """Features as LayerNorm leaves them, in float64."""
    return torch.nn.functional.layer_norm(z.double(), z.shape[-1:])


def centres_of(x: Tensor, y: Tensor) -> Tensor:
    """The mean of each sample's class."""
    return torch.stack([x[y == label].mean(0) for label in y])


def outward(surrogate: Surrogate, x: Tensor, y: Tensor, smallest: int) -> list[float]:
    """Slope of the penalty along the way out from its centre, for each class of enough samples."""
    _, (slope,) = value_and_gradient(lambda x: of_seed(surrogate, x, y), x)
    along = (slope * (x - centres_of(x, y))).sum(1)
    return [along[y == c].sum().item() for c in y.unique() if (y == c).sum() >= smallest]


def start_noise(surrogate: Surrogate, y: Tensor, dtype: torch.dtype) -> Tensor:
    """The slots' first noise after reseed(11).

    A row for as many classes as could have three samples in such a batch, and at least one.
    """
    rows = min(surrogate.num_classes, max(1, len(y) // 3))
    shape = (rows, getattr(surrogate.settings, "slots", 1), surrogate.dim)
    stream = torch.Generator().manual_seed(11)
    return torch.randn(shape, generator=stream, dtype=dtype).double()


def compare(loops, surrogate: Surrogate, z: Tensor, y: Tensor, rel: float) -> None:
    """Value and gradients, at z and at every parameter, against the loops in float64."""
    noise, named = start_noise(surrogate, y, z.dtype), dict(surrogate.named_parameters())
    value, slopes = value_and_gradient(lambda z: of_seed(surrogate, z, y), z, *named.values())
    state = {name: p.detach().double().requires_grad_() for name, p in named.items()}
    expected, exact = value_and_gradient(
        lambda z: loops(z, y, state, noise, surrogate.settings), z.double(), *state.values()
    )
    assert_near(value, expected, rel)
    assert_gradients_near(slopes, exact, rel)
