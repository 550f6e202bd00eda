"""How much of a vote leaks, estimated from tallies of the real protocol.

An attacker that looks at a projection of the counts guesses which of two neighbouring sets of votes
was counted. A threshold that is chosen on one half of the tallies and judged on the other, by exact
binomial intervals, gives a lower bound of epsilon: the promise must stay above it.
"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

from cemlib.labelling.accounting import CHANGED_VOTE, gaussian_epsilon, gaussian_sigma
from cemlib.labelling.protocol import Setting, aggregate

EPSILON, DELTA, RISK = 0.9, 1e-5, 1e-4
QUERIES = 3000
BEFORE, AFTER = (0, 0, 1), (1, 0, 1)  # the first participant changes its vote


def tallies(votes: tuple[int, ...], sigma: float, seed: int) -> NDArray[np.float64]:
    """Projection of the counts of the same votes, again and again, on what would change."""
    setting = Setting(3, 2, noise_std=sigma, key_bits=256, insecure_for_testing=True)
    rows = np.tile(np.array(votes), (QUERIES, 1))
    counts = aggregate(rows, setting, noise=np.random.default_rng(seed))
    found: NDArray[np.float64] = counts[:, 0] - counts[:, 1]
    return found


def least_epsilon(ours: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """A lower bound of epsilon that holds but for a risk of `2 RISK`."""
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


@pytest.fixture(scope="module")
def promised() -> float:
    return gaussian_sigma(EPSILON, DELTA, CHANGED_VOTE)


def test_what_leaks_stays_under_the_promise(promised: float) -> None:
    found = least_epsilon(tallies(BEFORE, promised, 1), tallies(AFTER, promised, 2))
    assert found < gaussian_epsilon(promised, DELTA, CHANGED_VOTE) < EPSILON


def test_too_little_noise_is_found_out(promised: float) -> None:
    """A fifth of the noise: the same estimate is then above the promise."""
    sigma = promised / 5
    found = least_epsilon(tallies(BEFORE, sigma, 3), tallies(AFTER, sigma, 4))
    assert EPSILON < found < gaussian_epsilon(sigma, DELTA, CHANGED_VOTE)
