"""Find the strength that reaches an accuracy: a bracket in log-strength, then Brent's method.

Source: Brent, "Algorithms for minimization without derivatives", 1973, chapter 4, as implemented in
scipy. Accuracy minus target counts as 0 within the tolerance, so that the root finder stops there.
Accuracy is assumed to fall with the strength; if noise makes it rise in places, the search finds
one of the crossings of the target, and still ends.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import root_scalar

FACTOR = 4.0  # from one strength of the bracket to the next
STEPS = 8  # of the bracket, at most
CLOSE = 0.02  # relative distance within which two strengths count as one
ITERATIONS = 12  # of the root finder, at most

Value = int | float

# How a search ends: within the tolerance; the target lies outside the range of the strength; two
# strengths that count as one lie on either side of the target, or the root finder has used up its
# iterations.
MATCHED, UNREACHED, BETWEEN = "matched", "unreached", "between"


@dataclass(frozen=True)
class Strength:
    """The setting that is varied, and its range.

    Attributes:
        start: First value of the search, above 0.
        allowed: Tells whether the configuration accepts a value.
        whole: Whether values are whole numbers.
        rising: Whether a larger value protects less and costs less accuracy.
    """

    start: Value
    allowed: Callable[[Value], bool]
    whole: bool = False
    rising: bool = False

    def rounded(self, value: float) -> Value:
        """Return a value with four digits, or the nearest whole number."""
        return round(value) if self.whole else float(f"{value:.4g}")

    def beyond(self, value: Value, up: bool) -> Value | None:
        """Return the next value of the bracket, in a smaller step near a limit; None if at it."""
        factor = FACTOR
        while factor > 1 + CLOSE:
            there = self.rounded(value * factor if up else value / factor)
            if there > 0 and there != value and self.allowed(there):
                return there
            factor = math.sqrt(factor)
        return None


@dataclass(frozen=True)
class Found:
    """How a search ended, and the strength whose accuracy is nearest to the target."""

    end: str
    value: Value


def find(
    accuracy: Callable[[Value], float], target: float, within: float, strength: Strength
) -> Found:
    """Search for a strength whose `accuracy` (called once per value) is `within` of the `target`.

    Example:
        >>> halves = Strength(16.0, allowed=lambda value: value >= 0)
        >>> find(lambda value: 90 - 5 * math.log10(1 + value), 85, 0.1, halves)
        Found(end='matched', value=8.771)
    """
    tried: dict[Value, float] = {}

    def miss(value: float) -> float:
        """Return accuracy minus target, or 0 within the tolerance."""
        rounded = strength.rounded(value)
        if rounded not in tried:
            tried[rounded] = accuracy(rounded)
        distance = tried[rounded] - target
        return 0.0 if abs(distance) <= within else distance

    def best() -> Found:
        """Return the strength nearest to the target; the last of several, since it closes in."""
        value = min(reversed(tried), key=lambda value: abs(tried[value] - target))
        return Found(BETWEEN if miss(value) else MATCHED, value)

    first = miss(strength.start)
    if first < 0 and not strength.rising and strength.allowed(0) and miss(0) < 0:
        return Found(UNREACHED, 0)  # not even without protection
    if best().end == MATCHED:
        return best()
    one, other = _bracket(miss, strength, up=(first > 0) != strength.rising)
    if miss(other) * first > 0:  # no crossing above 0, but perhaps at 0
        return best() if 0 in tried else Found(UNREACHED, other)
    if miss(other) != 0:
        root_scalar(
            lambda place: miss(math.exp(place)),
            bracket=sorted((math.log(one), math.log(other))),
            method="brentq",
            xtol=math.log1p(CLOSE),
            maxiter=ITERATIONS,
        )
    return best()


def _bracket(
    miss: Callable[[Value], float], strength: Strength, *, up: bool
) -> tuple[Value, Value]:
    """Return the last two strengths on the way from the start across the target."""
    here = there = strength.rounded(strength.start)
    first = miss(here)
    for _ in range(STEPS):
        beyond = strength.beyond(there, up)
        if beyond is None:
            break
        here, there = there, beyond
        if miss(there) * first <= 0:
            break
    return here, there
