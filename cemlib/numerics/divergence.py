"""Losses that are no longer numbers."""

import math


class DivergedError(RuntimeError):
    """A loss is no longer a number; the message names the epoch and the part that failed."""


def check_finite(epoch: int, **values: float) -> None:
    """Raise DivergedError, naming the epoch and the part, if some value is not finite."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise DivergedError(f"epoch {epoch}: {name} is {value}; a lower lr or weight may help")
