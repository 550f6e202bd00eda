"""Sums of what steps say, kept on the device until an epoch ends: no step waits to be read."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from cemlib.numerics.divergence import DivergedError


class Sums:
    """Weighted sums of named scalars, added up in place and in float64."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._totals: Tensor | None = None  # the weights' sum comes last

    def add(self, values: Mapping[str, Tensor], weight: float = 1.0) -> None:
        """Add scalars, times a weight; the same names in every call."""
        now = torch.stack([value.detach().to(torch.float64) for value in values.values()])
        now = torch.cat([now, torch.ones_like(now[:1])])
        if self._totals is None:
            self._names, self._totals = tuple(values), torch.zeros_like(now)
        self._totals += now * weight

    def take(self) -> tuple[dict[str, float], float]:
        """Read the sums and the sum of the weights, and start anew; empty and 0 if none came."""
        if self._totals is None:
            return {}, 0.0
        *sums, weight = self._totals.tolist()
        self._totals.zero_()
        return (dict(zip(self._names, sums, strict=True)), weight) if weight else ({}, 0.0)


class Monitor:
    """Means of some statistics over an epoch, and the first step where one was not finite.

    Everything is updated in place, so that a step with its statistics can be replayed.

    Args:
        names: what the statistics are called, in the order in which a fault is blamed.
        device: where they are computed.
    """

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self.names = names
        self._sums = Sums()
        self._step = torch.zeros((), dtype=torch.long, device=device)
        self._first_bad = torch.zeros(len(names), dtype=torch.long, device=device)

    def begin(self) -> None:
        """Start an epoch."""
        self._sums.take()
        self._step.zero_()
        self._first_bad.zero_()

    def add(self, values: Mapping[str, Tensor], samples: int) -> None:
        """Take the statistics of one step, scalars, as means over so many samples."""
        self._sums.add(values, samples)
        self._step += 1
        fine = torch.stack([value.detach().isfinite() for value in values.values()])
        self._first_bad += (self._first_bad == 0) * ~fine * self._step

    def means(self, epoch: int) -> dict[str, float]:
        """Read the means over the samples.

        Raises:
            DivergedError: if a statistic was not finite, naming epoch, batch (from 1) and it.
        """
        steps = self._first_bad.tolist()
        if any(steps):
            batch = min(step for step in steps if step)
            name = self.names[steps.index(batch)]
            raise DivergedError(
                f"epoch {epoch}, batch {batch}: {name} is not finite; a lower lr or weight may help"
            )
        sums, samples = self._sums.take()
        return {name: total / samples for name, total in sums.items()}
