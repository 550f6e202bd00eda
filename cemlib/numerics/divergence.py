"""The error for losses that are not finite."""

import math


class DivergedError(RuntimeError):
    """A loss is not finite; the message names the epoch and the value."""


def check_finite(epoch: int, **values: float) -> None:
    """Raise a DivergedError with the name of the first value that is not finite."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise DivergedError(f"epoch {epoch}: {name} is {value}; a lower lr or weight may help")
