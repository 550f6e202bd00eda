"""Hold what an attack answers; draw its starts, and choose among restarts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import torch
from torch import Tensor

from cemlib.federated.inversion.gradients import Shared
from cemlib.numerics.seeds import derive


@dataclass(frozen=True)
class Reconstruction:
    """Hold the answers of an attack on P shared gradients of B images each.

    Attributes:
        images: (P, B, C, H, W) in [0, 1].
        labels: (P, B).
        loss: (P,) the attack's own; not finite where it failed.
        curve: (P, T) its course.
    """

    images: Tensor
    labels: Tensor
    loss: Tensor
    curve: Tensor


class Tries(Protocol):
    """Say how often and on how many problems at once an attack runs."""

    @property
    def restarts(self) -> int:
        """Return the number of random starts."""

    @property
    def at_once(self) -> int:
        """Return how many problems run together."""


Run = Callable[[Shared, Sequence[int]], Reconstruction]


def best_of_restarts(
    run: Run, shared: Shared, tries: Tries, generator: torch.Generator
) -> Reconstruction:
    """Return each problem's best run by the attack's own loss: it does not know the true image.

    A problem's starts are derived from the generator and the problem's number, so that its answer
    depends neither on its neighbours nor on how many are run together.
    """
    base = int(torch.randint(2**62, (), generator=generator))
    found = []
    for first in range(0, len(shared), tries.at_once):
        part = shared.part(slice(first, first + tries.at_once))
        runs = (run(part, _seeds(base, again, part)) for again in range(tries.restarts))
        found.append(reduce(better, runs))
    return Reconstruction(*(torch.cat(each) for each in zip(*map(_tensors, found), strict=True)))


def better(first: Reconstruction, second: Reconstruction) -> Reconstruction:
    """Return each problem's answer of lower loss; one that is not finite is the worst."""
    losses = [run.loss.nan_to_num(torch.inf, torch.inf, torch.inf) for run in (first, second)]
    wins = losses[1] < losses[0]

    def chosen(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(wins.view(-1, *[1] * (a.ndim - 1)), b, a)

    return Reconstruction(*map(chosen, _tensors(first), _tensors(second)))


def _tensors(answer: Reconstruction) -> tuple[Tensor, ...]:
    return answer.images, answer.labels, answer.loss, answer.curve


def normal_starts(seeds: Sequence[int], shape: Sequence[int], like: Tensor) -> Tensor:
    """Draw normal numbers (P, *shape), each row of its own seed, as `like` in type and place.

    Drawn in float32 on the CPU: the same whatever the device.
    """
    rows = [torch.randn(*shape, generator=torch.Generator().manual_seed(s)) for s in seeds]
    return torch.stack(rows).to(like)


def _seeds(base: int, restart: int, shared: Shared) -> list[int]:
    """Return one seed for each problem."""
    return [derive(base, f"start {restart}", number) for number in shared.numbers().tolist()]
