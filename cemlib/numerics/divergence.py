"""The error for losses that are not finite."""

import math


class DivergedError(RuntimeError):
    """A loss is not finite; the message names the epoch and the value."""


def check_finite(epoch: int, **values: float) -> None:
    """Raise a DivergedError that names the first value that is not finite, if there is one."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise DivergedError(f"epoch {epoch}: {name} is {value}; a lower lr or weight may help")
