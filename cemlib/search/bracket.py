"""The strength at which an accuracy is reached: a bracket in log-strength, then Brent's method.

Source of the root finder: Brent, "Algorithms for minimization without derivatives", 1973, chapter
4, as scipy has it. Within the tolerance the function is 0, so that the finder stops there; every
strength is rounded to four digits and measured once.

Accuracy is taken as falling with the strength. Noise can make it rise in places: then what is found
is one place where it crosses, and the finder still ends.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import root_scalar

FACTOR = 4.0  # from one strength of the bracket to the next
STEPS = 8  # of them at most
CLOSE = 0.02  # relative distance of two strengths that are as good as one
ITERATIONS = 12  # of the root finder at most

Value = int | float

# How a search ends: near enough; the target lies outside what the strength can do; two strengths as
# good as one lie on both sides of it, or the root finder has had its steps.
MATCHED, UNREACHED, BETWEEN = "matched", "unreached", "between"


@dataclass(frozen=True)
class Strength:
    """Say what is turned, and how far it goes.

    Attributes:
        start: Where the search begins, above 0.
        allowed: Whether a value is one that the configuration takes.
        whole: Whether it is a whole number.
        rising: Whether a larger value protects less, and costs less accuracy.
    """

    start: Value
    allowed: Callable[[Value], bool]
    whole: bool = False
    rising: bool = False

    def rounded(self, value: float) -> Value:
        """Return a value with four digits, or the nearest whole number."""
        return round(value) if self.whole else float(f"{value:.4g}")

    def beyond(self, value: Value, up: bool) -> Value | None:
        """Return the next value of the bracket, nearer where a limit is; None at the limit."""
        factor = FACTOR
        while factor > 1 + CLOSE:
            there = self.rounded(value * factor if up else value / factor)
            if there > 0 and there != value and self.allowed(there):
                return there
            factor = math.sqrt(factor)
        return None


@dataclass(frozen=True)
class Found:
    """Say how a search ended, and at which strength, the one nearest to the target."""

    end: str
    value: Value


def find(
    accuracy: Callable[[Value], float], target: float, within: float, strength: Strength
) -> Found:
    """Search the strength at which an accuracy is reached.

    Args:
        accuracy: Of a strength, in the unit of the target; called once for each value.
        target: The accuracy.
        within: Distance from it at which the search is over.
        strength: What is turned.

    Example:
        >>> halves = Strength(16.0, allowed=lambda value: value >= 0)
        >>> find(lambda value: 90 - 5 * math.log10(1 + value), 85, 0.1, halves)
        Found(end='matched', value=8.771)
    """
    return _Search(accuracy, target, within, strength).found()


class _Search:
    def __init__(
        self,
        accuracy: Callable[[Value], float],
        target: float,
        within: float,
        strength: Strength,
    ) -> None:
        self.accuracy, self.target, self.within = accuracy, target, within
        self.strength = strength
        self.tried: dict[Value, float] = {}

    def found(self) -> Found:
        first = self.miss(self.strength.start)
        if first < 0 and not self.strength.rising and self.strength.allowed(0):
            # No protection at all says at once whether the accuracy can be had.
            if self.miss(0) < 0:
                return Found(UNREACHED, 0)
            if self.miss(0) == 0:
                return self.best()
        if first != 0:
            one, other = self.bracket(first)
            if self.miss(other) * first > 0:  # with no protection it was had, or noise says so
                return self.best() if 0 in self.tried else Found(UNREACHED, other)
            if self.miss(other) != 0:
                self.close_in(one, other)
        return self.best()

    def bracket(self, first: float) -> tuple[Value, Value]:
        """Return the last two strengths on the way from the start across the target."""
        up = (first > 0) != self.strength.rising
        here = there = self.strength.rounded(self.strength.start)
        for _ in range(STEPS):
            beyond = self.strength.beyond(there, up)
            if beyond is None:
                break
            here, there = there, beyond
            if self.miss(there) * first <= 0:
                break
        return here, there

    def close_in(self, one: Value, other: Value) -> None:
        """Apply Brent's method between two strengths, on both sides of the target."""
        low, high = sorted((math.log(one), math.log(other)))
        root_scalar(
            lambda place: self.miss(math.exp(place)),
            bracket=(low, high),
            method="brentq",
            xtol=math.log1p(CLOSE),
            maxiter=ITERATIONS,
        )

    def miss(self, value: float) -> float:
        """Return by how much a strength misses the target; 0 where it is near enough."""
        value = self.strength.rounded(value)
        if value not in self.tried:
            self.tried[value] = self.accuracy(value)
        distance = self.tried[value] - self.target
        return 0.0 if abs(distance) <= self.within else distance

    def best(self) -> Found:
        """Return the strength nearest to the target, of equal ones the last: it closes in."""
        tried = reversed(self.tried)
        value = min(tried, key=lambda value: abs(self.tried[value] - self.target))
        return Found(MATCHED if self.miss(value) == 0 else BETWEEN, value)
