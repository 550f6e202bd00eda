"""Compute the differential privacy of noisy counts of votes, for one query and for many.

Every query releases `counts + N(0, sigma^2)` for each class, with the noise of all participants.
Two sets of votes are neighbours if their counts differ by at most the sensitivity in L2: 1 if a
participant joins or leaves, sqrt(2) if its vote changes, as one of its training images can cause.

Sources: Dwork and Roth, "The algorithmic foundations of differential privacy", 2014, theorem A.1
(classical Gaussian mechanism; its proof needs epsilon < 1); Balle and Wang, "Improving the Gaussian
mechanism for differential privacy", ICML 2018, theorem 8 (the exact curve); Dwork, Rothblum and
Vadhan, "Boosting and differential privacy", FOCS 2010, theorem III.3 (strong composition, which the
published text uses).
"""

import math
import sys
from typing import Any

from scipy.optimize import brentq

from cemlib.config.labelling import LabellingStudy
from cemlib.numerics.gaussian import gaussian_delta

CHANGED_VOTE = math.sqrt(2.0)
NEIGHBOURS = {"a participant's vote changes": CHANGED_VOTE, "a participant joins or leaves": 1.0}
ANYONE, PARTICIPANT = "who sees the counts", "a participant, who knows its own noise"
_LARGEST = math.log(sys.float_info.max)  # above it, the exponential overflows


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the noise's standard deviation, `sensitivity sqrt(2 ln(1.25 / delta)) / epsilon`.

    It is that of the classical Gaussian mechanism, whose theorem holds for epsilon below 1;
    `gaussian_epsilon` is exact for any noise.

    Example:
        >>> round(gaussian_sigma(1.2, 1e-5), 4)
        4.0373
    """
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest epsilon of Gaussian noise at a given delta; infinite without noise.

    Example:
        >>> round(gaussian_delta(gaussian_epsilon(4.0, 1e-5), 4.0) * 1e5, 6)
        1.0
    """
    if sigma == 0:
        return math.inf
    if gaussian_delta(0.0, sigma, sensitivity) <= delta:
        return 0.0
    ratio = sensitivity / sigma
    most = ratio**2 / 2 + ratio * math.sqrt(2 * math.log(1 / delta))  # zCDP's bound is above it
    return float(brentq(lambda e: gaussian_delta(e, sigma, sensitivity) - delta, 0.0, most))


def strong_composition(epsilon: float, queries: int, slack: float) -> float:
    """Return the epsilon of k queries together: `sqrt(2 k ln(1/slack)) e + k e (exp(e) - 1)`.

    Their delta is the sum of the queries' deltas and the slack. The bound is infinite where it
    exceeds the range of floats.

    Example:
        >>> round(strong_composition(0.1, 100, 1e-5), 3)
        5.85
    """
    if epsilon > _LARGEST:
        return math.inf
    spread = math.sqrt(2 * queries * math.log(1 / slack))
    return spread * epsilon + queries * epsilon * math.expm1(epsilon)


def noise_std(study: LabellingStudy, epsilon: float | None) -> float:
    """Return the standard deviation of the noise in a count; 0 for None or infinity."""
    if epsilon is None or math.isinf(epsilon):
        return 0.0
    return gaussian_sigma(epsilon, study.privacy.delta, study.privacy.sensitivity)


def stated(study: LabellingStudy, epsilon: float) -> dict[str, Any]:
    """Return the privacy columns of a table, given the epsilon of one query by the formula.

    `formula_sensitivity` is that of the formula. The exact epsilons are for a changed vote, at the
    delta of one query even for all queries together.
    """
    settings = study.privacy
    sigma = noise_std(study, epsilon)
    return {
        "epsilon_query": epsilon,
        "formula_sensitivity": settings.sensitivity,
        "sigma": sigma,
        "noise": "sigma^2 in total",
        **_exact(study, sigma, CHANGED_VOTE),
        "epsilon_total_published": strong_composition(epsilon, study.queries, settings.delta),
        "delta_total_published": (study.queries + 1) * settings.delta,
    }


def privacy_rows(study: LabellingStudy) -> list[dict[str, Any]]:
    """Return a row for each observer and each kind of neighbours, at the study's own epsilon."""
    sigma = noise_std(study, study.privacy.epsilon)
    unknown = {ANYONE: sigma, PARTICIPANT: sigma * math.sqrt(1 - 1 / study.participants)}
    return [
        {
            "observer": observer,
            "neighbours": neighbours,
            "sensitivity": sensitivity,
            "sigma": noise,
            **_exact(study, noise, sensitivity),
        }
        for observer, noise in unknown.items()
        for neighbours, sensitivity in NEIGHBOURS.items()
    ]


def _exact(study: LabellingStudy, sigma: float, sensitivity: float) -> dict[str, Any]:
    delta = study.privacy.delta
    every = sensitivity * math.sqrt(study.queries)  # all counts together are one Gaussian mechanism
    return {
        "queries": study.queries,
        "delta": delta,
        "epsilon_query_exact": gaussian_epsilon(sigma, delta, sensitivity),
        "epsilon_total_exact": gaussian_epsilon(sigma, delta, every),
    }
