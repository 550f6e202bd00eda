"""The stated privacy against integrals, another accountant, and the leakage that is measured."""

import math

import numpy as np
import pandas as pd
import pytest
from labelling_study import tiny
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import beta, norm

from cemlib.labelling.accounting import (
    CHANGED_VOTE,
    gaussian_epsilon,
    gaussian_sigma,
    privacy_rows,
    stated,
    strong_composition,
)
from cemlib.labelling.protocol import Setting, aggregate


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.6, 0.99])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
def test_the_classical_noise_keeps_its_promise_below_one(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_epsilon(sigma, delta) < epsilon
    assert gaussian_epsilon(sigma / 3, delta) > epsilon  # and a third of it would break it


def test_the_classical_noise_breaks_its_promise_for_a_large_epsilon() -> None:
    """Why every table has the exact epsilon beside the formula's."""
    assert gaussian_epsilon(gaussian_sigma(1.2, 1e-5), 1e-5) < 1.2
    assert gaussian_epsilon(gaussian_sigma(40.0, 1e-5), 1e-5) > 40.0


def test_many_queries_are_one_that_is_more_sensitive() -> None:
    """The densities of two independent queries, each shifted: on the plane, along its diagonal."""
    sigma, delta = 2.0, 1e-4
    epsilon = gaussian_epsilon(sigma, delta, math.sqrt(2))

    def inside(y: float) -> float:
        """P(privacy loss above epsilon | y) under p, less e^epsilon times that under q."""
        crossing = epsilon * sigma**2 + 1.0 - y
        p = norm.sf(crossing, 1.0, sigma) * norm.pdf(y, 1.0, sigma)
        q = norm.sf(crossing, 0.0, sigma) * norm.pdf(y, 0.0, sigma)
        return float(p - math.exp(epsilon) * q)

    assert quad(inside, -40, 40, limit=400)[0] == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize(
    ("sensitivity", "delta", "epsilon"),
    [
        (1.0, 1e-5, 20.422887),
        (1.0, 2.01e-3, 15.486065),
        (CHANGED_VOTE, 1e-5, 32.678110),
        (CHANGED_VOTE, 2.01e-3, 25.735077),
    ],
)
def test_200_queries_cost_what_another_accountant_says(
    sensitivity: float, delta: float, epsilon: float
) -> None:
    """Google's dp-accounting 0.6: privacy loss distribution at intervals of 1e-4, composed."""
    found = gaussian_epsilon(gaussian_sigma(1.2, 1e-5), delta, sensitivity * math.sqrt(200))
    assert found == pytest.approx(epsilon, abs=2e-6)


def test_what_is_stated_is_of_one_query_and_of_all_that_are_published() -> None:
    found, queries = stated(tiny(), 1.2), tiny().queries
    ratio, delta = CHANGED_VOTE / found["sigma"], found["delta"]

    def excess(epsilon: float) -> float:
        """The delta of one changed vote in one query, less the one that is stated."""
        p, q = (norm.cdf(side * ratio / 2 - epsilon / ratio) for side in (1, -1))
        return float(p - math.exp(epsilon) * q - delta)

    assert found["epsilon_query_exact"] == pytest.approx(brentq(excess, 0, 50))
    spread = 1.2 * math.sqrt(2 * queries * math.log(1 / delta))
    total = spread + queries * 1.2 * (math.exp(1.2) - 1)
    assert found["epsilon_total_published"] == pytest.approx(total)
    assert found["delta_total_published"] == pytest.approx((queries + 1) * delta)


@pytest.mark.parametrize("epsilon", [100.0, 400.0])
def test_noise_that_hardly_hides_has_an_account_all_the_same(epsilon: float) -> None:
    """Strong composition leaves the range of floats: infinite, where the exact epsilon is not."""
    found = stated(tiny(privacy__epsilon=epsilon), epsilon)
    assert epsilon < found["epsilon_total_exact"] < math.inf
    assert strong_composition(800.0, 200, 1e-5) == math.inf


def test_a_participant_knows_its_own_noise() -> None:
    table = pd.DataFrame(privacy_rows(tiny())).set_index(["observer", "sensitivity"])
    seen = table.xs(1.0, level="sensitivity")["sigma"]
    assert seen.iloc[1] / seen.iloc[0] == pytest.approx(math.sqrt(3 / 4))  # of four participants
    for _, rows in table.groupby("observer"):
        assert rows["epsilon_total_exact"].is_monotonic_decreasing  # a changed vote tells more


def test_the_stated_privacy_is_of_the_stated_sensitivity() -> None:
    changed = tiny(privacy__sensitivity=CHANGED_VOTE)
    one, other = stated(tiny(), 1.2), stated(changed, 1.2)
    assert other["sigma"] == pytest.approx(CHANGED_VOTE * one["sigma"])
    joins = gaussian_epsilon(one["sigma"], one["delta"], math.sqrt(one["queries"]))
    assert other["epsilon_total_exact"] == pytest.approx(joins)
    assert one["epsilon_total_exact"] > joins
    assert one["noise"] == "sigma^2 in total"


EPSILON, DELTA, RISK = 0.9, 1e-5, 1e-4
PROMISED = gaussian_sigma(EPSILON, DELTA, CHANGED_VOTE)
QUERIES = 3000
BEFORE, AFTER = (0, 0, 1), (1, 0, 1)  # the first participant changes its vote


def tallies(votes: tuple[int, ...], sigma: float, seed: int) -> NDArray[np.float64]:
    """Repeated counts of the same votes, projected on the direction that would change."""
    setting = Setting(3, 2, noise_std=sigma, key_bits=256, insecure_for_testing=True)
    rows = np.tile(np.array(votes), (QUERIES, 1))
    counts = aggregate(rows, setting, noise=np.random.default_rng(seed))
    return counts[:, 0] - counts[:, 1]


def least_epsilon(ours: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """A lower bound of epsilon, which is wrong with a probability of at most `2 RISK`.

    An attacker guesses by a threshold which of two neighbouring sets of votes was counted. The
    threshold is chosen on one half of the tallies and evaluated on the other, by exact binomial
    intervals.
    """
    half = len(ours) // 2
    thresholds = np.quantile(ours[:half], np.linspace(0.05, 0.95, 19))
    chosen = max(thresholds, key=lambda t: _bound(ours[:half], others[:half], t))
    return _bound(ours[half:], others[half:], chosen)


def _bound(ours: NDArray[np.float64], others: NDArray[np.float64], threshold: float) -> float:
    """Clopper and Pearson: at least p of ours and at most q of the others are above."""
    n, hits, wrong = len(ours), int((ours > threshold).sum()), int((others > threshold).sum())
    p = beta.ppf(RISK, hits, n - hits + 1) if hits else 0.0
    q = beta.ppf(1 - RISK, wrong + 1, n - wrong) if wrong < n else 1.0
    return math.log(max(p - DELTA, 1e-300) / q)


def test_what_leaks_stays_under_the_promise() -> None:
    found = least_epsilon(tallies(BEFORE, PROMISED, 1), tallies(AFTER, PROMISED, 2))
    assert found < gaussian_epsilon(PROMISED, DELTA, CHANGED_VOTE) < EPSILON


def test_too_little_noise_is_found_out() -> None:
    """A fifth of the noise: the same estimate is then above the promise."""
    sigma = PROMISED / 5
    found = least_epsilon(tallies(BEFORE, sigma, 3), tallies(AFTER, sigma, 4))
    assert EPSILON < found < gaussian_epsilon(sigma, DELTA, CHANGED_VOTE)
