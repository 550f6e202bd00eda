"""Sums of what steps say, kept on the device until an epoch ends: no step waits to be read."""

from collections.abc import Mapping

import torch
from torch import Tensor


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
