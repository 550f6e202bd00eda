"""Account for what noisy counts of votes may tell about a vote: in one query, and in many.

Every query releases `counts + N(0, sigma^2)` in each class, sigma^2 in total over the participants.
Two sets of votes are neighbours if their counts differ by at most the sensitivity in L2: 1 where a
participant joins or leaves (one class loses a vote), sqrt(2) where a participant's vote changes
(one class loses it, another gains it), which is also what one image of its training set can do.

Sources: Dwork and Roth, "The algorithmic foundations of differential privacy", 2014, theorem A.1
(classical Gaussian mechanism; its proof needs epsilon < 1); Balle and Wang, "Improving the Gaussian
mechanism for differential privacy", ICML 2018, theorem 8 (the exact curve); Dwork, Rothblum and
Vadhan, "Boosting and differential privacy", FOCS 2010, theorem III.3 (strong composition); Bun and
Steinke, "Concentrated differential privacy", TCC 2016, propositions 1.3 and 1.6, lemma 1.7 (zCDP);
Mironov, "Renyi differential privacy", CSF 2017, by the accountant of opacus.
"""

import math
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from scipy.optimize import brentq
from scipy.special import log_ndtr

from cemlib.config.labelling import LabellingStudy

JOINS_OR_LEAVES = 1.0
CHANGED_VOTE = math.sqrt(2.0)
NEIGHBOURS = {
    "a participant joins or leaves": JOINS_OR_LEAVES,
    "a participant's vote changes": CHANGED_VOTE,
}
ANYONE, PARTICIPANT = "who sees the counts", "a participant, who knows its own noise"
_LARGEST = math.log(sys.float_info.max)  # whose exponential is still a number
_ORDERS = [1 + x / 100 for x in range(1, 1000)] + [float(x) for x in range(11, 257)]


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the classical noise, `sensitivity sqrt(2 ln(1.25 / delta)) / epsilon`.

    The theorem holds for epsilon below 1; `gaussian_epsilon` says what the noise gives beyond.

    Args:
        epsilon: of one query.
        delta: of one query.
        sensitivity: L2 distance of neighbouring counts.

    Example:
        >>> round(gaussian_sigma(1.2, 1e-5), 4)
        4.0373
    """
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Return the smallest delta of Gaussian noise at an epsilon (Balle and Wang, theorem 8).

    `Phi(s / 2 sigma - epsilon sigma / s) - e^epsilon Phi(-s / 2 sigma - epsilon sigma / s)`
    """
    half, shift = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    return math.exp(log_ndtr(half - shift)) - math.exp(epsilon + log_ndtr(-half - shift))


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest epsilon of Gaussian noise at a delta; infinite without noise.

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


def composed_epsilon(sigma: float, delta: float, sensitivity: float, queries: int) -> float:
    """Return the exact epsilon of many queries answered with the same noise.

    Together they are one Gaussian mechanism on all their counts, sqrt(queries) times as sensitive.
    """
    return gaussian_epsilon(sigma, delta, sensitivity * math.sqrt(queries))


def strong_composition(epsilon: float, queries: int, slack: float) -> float:
    """Return epsilon of many private queries: `sqrt(2 k ln(1/slack)) e + k e (exp(e) - 1)`.

    Their delta is `total_delta`. Infinite where no float is as large as the bound.

    Example:
        >>> round(strong_composition(0.1, 100, 1e-5), 3)
        5.85
    """
    if epsilon > _LARGEST:
        return math.inf
    spread = math.sqrt(2 * queries * math.log(1 / slack))
    return spread * epsilon + queries * epsilon * math.expm1(epsilon)


def total_delta(delta: float, queries: int) -> float:
    """Return the delta of strong composition, `k delta + slack`, with a query's delta as slack."""
    return queries * delta + delta


def zcdp_epsilon(sigma: float, delta: float, sensitivity: float, queries: int) -> float:
    """Return epsilon by zero-concentrated privacy: `rho + 2 sqrt(rho ln(1 / delta))`.

    Every query has `rho = sensitivity^2 / (2 sigma^2)`, and rho adds up.
    """
    if sigma == 0:
        return math.inf
    rho = queries * sensitivity**2 / (2 * sigma**2)
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def renyi_epsilon(sigma: float, delta: float, sensitivity: float, queries: int) -> float | None:
    """Return epsilon by the Renyi accountant of opacus; None where opacus is not installed."""
    if find_spec("opacus") is None:
        return None
    if sigma == 0:
        return math.inf
    from opacus.accountants.analysis import rdp  # type: ignore[import-untyped]

    spent = rdp.compute_rdp(
        q=1.0, noise_multiplier=sigma / sensitivity, steps=queries, orders=_ORDERS
    )
    return float(rdp.get_privacy_spent(orders=_ORDERS, rdp=spent, delta=delta)[0])


@dataclass(frozen=True)
class Account:
    """Hold one noise and one kind of neighbours, for which every accounting gives an epsilon.

    Attributes:
        sigma: standard deviation of the noise that the observer does not know.
        sensitivity: L2 distance of neighbouring counts.
        delta: of one query.
        queries: answered with this noise.
    """

    sigma: float
    sensitivity: float
    delta: float
    queries: int

    @property
    def total_delta(self) -> float:
        """Return the delta of all queries by strong composition; every accounting gets the same."""
        return total_delta(self.delta, self.queries)

    def epsilons(self) -> dict[str, float | None]:
        """Return the exact epsilon of one query, and that of all queries by each accounting."""
        one = gaussian_epsilon(self.sigma, self.delta, self.sensitivity)
        many = (self.sigma, self.total_delta, self.sensitivity, self.queries)
        return {
            "epsilon_query_exact": one,
            "epsilon_total_basic": self.queries * one,
            "epsilon_total_strong": strong_composition(one, self.queries, self.delta),
            "epsilon_total_zcdp": zcdp_epsilon(*many),
            "epsilon_total_renyi": renyi_epsilon(*many),
            "epsilon_total_exact": composed_epsilon(*many),
        }


def noise_std(study: LabellingStudy, epsilon: float | None) -> float:
    """Return the noise in a count, in total over the participants; 0 for None or infinity."""
    if epsilon is None or math.isinf(epsilon):
        return 0.0
    return gaussian_sigma(epsilon, study.privacy.delta, study.privacy.sensitivity)


def stated(study: LabellingStudy, epsilon: float) -> dict[str, Any]:
    """Return the privacy columns of a table: the stated setting, and epsilon by every accounting.

    `epsilon_total_published` is strong composition of the epsilon that the formula was given.
    """
    settings = study.privacy
    sigma = noise_std(study, epsilon)
    found = Account(sigma, settings.sensitivity, settings.delta, study.queries)
    published = strong_composition(epsilon, study.queries, settings.delta)
    return {
        "epsilon_query": epsilon,
        "delta_query": settings.delta,
        "sensitivity": settings.sensitivity,
        "sigma": sigma,
        "noise": "sigma^2 in total",
        "queries": study.queries,
        "epsilon_total_published": published,
        **found.epsilons(),
        "delta_total": found.total_delta,
    }


def privacy_rows(study: LabellingStudy) -> list[dict[str, Any]]:
    """Return a row for each kind of neighbours and observer, at the study's own epsilon."""
    sigma, delta = noise_std(study, study.privacy.epsilon), study.privacy.delta
    rows = []
    for observer, share in ((ANYONE, 1.0), (PARTICIPANT, 1 - 1 / study.participants)):
        for neighbours, sensitivity in NEIGHBOURS.items():
            seen = Account(sigma * math.sqrt(share), sensitivity, delta, study.queries)
            rows.append(
                {
                    "observer": observer,
                    "neighbours": neighbours,
                    "sensitivity": sensitivity,
                    "sigma": seen.sigma,
                    "queries": seen.queries,
                    "delta_query": seen.delta,
                    **seen.epsilons(),
                    "delta_total": seen.total_delta,
                }
            )
    return rows
