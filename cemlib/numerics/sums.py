"""Sums over the steps of an epoch, kept on the device so that no step waits for the host."""

from collections.abc import Mapping

import torch
from torch import Tensor

from cemlib.numerics.divergence import DivergedError


class Sums:
    """Weighted sums of named scalars, added up in place and in float64."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._totals: Tensor | None = None  # the weights' sum comes last

    def add(self, values: Mapping[str, Tensor], weight: float = 1.0) -> Tensor:
        """Add scalars times a weight, and return them in a vector, without the weight.

        Raises:
            ValueError: if they have other names than those that were added before.
        """
        scalars = torch.stack([value.detach().to(torch.float64) for value in values.values()])
        now = torch.cat([scalars, torch.ones_like(scalars[:1])])
        if self._totals is None:
            self._names, self._totals = tuple(values), torch.zeros_like(now)
        elif self._names != tuple(values):
            before, found = ", ".join(self._names), ", ".join(values)
            raise ValueError(f"logged {found}, but before {before}; log the same in every call")
        self._totals += now * weight
        return scalars

    def take(self) -> tuple[dict[str, float], float]:
        """Return the sums and the sum of the weights, ({}, 0) if nothing was added; reset both."""
        if self._totals is None:
            return {}, 0.0
        *sums, weight = self._totals.tolist()
        self._totals.zero_()
        return (dict(zip(self._names, sums, strict=True)), weight) if weight else ({}, 0.0)


class Monitor:
    """Means of named statistics over an epoch, and the first step where each was not finite.

    All updates are in place, so that a step can be replayed as a CUDA graph.
    """

    def __init__(self, device: torch.device) -> None:
        self._sums = Sums()
        self._step = torch.zeros((), dtype=torch.long, device=device)
        self._first_bad = self._step.new_zeros(0)

    def begin(self) -> None:
        """Start an epoch."""
        self._sums.take()
        self._step.zero_()
        self._first_bad.zero_()

    def add(self, values: Mapping[str, Tensor], samples: int) -> None:
        """Add the statistics of a step: scalar means over a number of samples."""
        if not len(self._first_bad):
            self._first_bad = self._step.new_zeros(len(values))
        fine = self._sums.add(values, samples).isfinite()
        self._step += 1
        self._first_bad += (self._first_bad == 0) * ~fine * self._step

    def means(self, epoch: int) -> dict[str, float]:
        """Return the means; raise DivergedError with epoch and batch if a value was not finite."""
        steps, (sums, samples) = self._first_bad.tolist(), self._sums.take()
        if any(steps):
            batch = min(step for step in steps if step)
            name = list(sums)[steps.index(batch)]
            raise DivergedError(
                f"epoch {epoch}, batch {batch}: {name} is not finite; a lower lr or weight may help"
            )
        return {name: total / samples for name, total in sums.items()}
