"""Faults of a computation that are results, and what errors of the user's input have in common."""

import difflib
import math
from collections.abc import Iterable


class DivergedError(RuntimeError):
    """A loss is no longer a number; the message names the epoch and the part that failed."""


class FailedResultsError(RuntimeError):
    """Everything was carried out, but some results are failed ones; what was printed names them."""


def check_finite(epoch: int, **values: float) -> None:
    """Raise DivergedError, naming the epoch and the part, if some value is not finite."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise DivergedError(f"epoch {epoch}: {name} is {value}; a lower lr or weight may help")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest known word, or nothing.

    >>> nearest("clusterin", ["clustering", "gated"])
    "; did you mean 'clustering'?"
    """
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
