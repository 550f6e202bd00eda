"""The information-entropy loss against plain loops, torch's cross entropy, and its edges."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cemlib.labelling.loss import answered, certainty, information_entropy_loss, posterior

COUNTS = torch.tensor(
    [[9.2, 3.1, -0.4, 2.1], [4.0, 4.0, 4.0, 4.0], [0.0, 0.0, 12.5, -3.0]]
).double()


def weight_by_loop(row: list[float]) -> float:
    clipped = [max(0.0, value) for value in row]
    shares = [value / sum(clipped) for value in clipped]
    return 1 + sum(p * math.log(p) for p in shares if p > 0) / math.log(len(row))


def test_weights_are_those_of_the_formula() -> None:
    expected = [weight_by_loop(row) for row in COUNTS.tolist()]
    assert certainty(COUNTS).tolist() == pytest.approx(expected, abs=1e-12)
    assert expected[1] == pytest.approx(0.0, abs=1e-12)  # all equal
    assert certainty(COUNTS)[2] == 1.0  # one class


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=12).filter(lambda row: max(row) > 1e-3))
def test_weights_are_in_the_unit_interval(row: list[float]) -> None:
    weight = certainty(torch.tensor([row], dtype=torch.float64))
    assert 0 <= float(weight) <= 1
    assert float(weight) == pytest.approx(weight_by_loop(row), abs=1e-9)


def test_a_row_without_a_positive_count_has_no_answer() -> None:
    counts = torch.tensor([[1.0, 0.0], [0.0, 0.0], [-1.0, -2.0]])
    assert answered(counts).tolist() == [True, False, False]


def posterior_by_enumeration(row: list[float], participants: int, sigma: float) -> float:
    answer, most, every = row.index(max(row)), 0.0, 0.0
    for tally in itertools.product(range(participants + 1), repeat=len(row)):
        if sum(tally) == participants:
            square = sum((c - n) ** 2 for c, n in zip(row, tally, strict=True))
            every += (chance := math.exp(-square / (2 * sigma**2)))
            most += chance * (tally[answer] == max(tally))
    return most / every


@pytest.mark.parametrize("sigma", [0.5, 2.0, 8.0])
def test_the_posterior_is_that_of_all_tallies(sigma: float) -> None:
    counts = 8 * torch.rand(6, 4, generator=torch.Generator().manual_seed(0)).double() - 1
    expected = [posterior_by_enumeration(row, 6, sigma) for row in counts.tolist()]
    assert posterior(counts, 6, sigma).tolist() == pytest.approx(expected, rel=1e-9)
    assert posterior(counts, 6, 0.0).tolist() == [1.0] * 6


@pytest.mark.parametrize("networks", [1, 3])
def test_the_loss_is_the_mean_of_weighted_cross_entropies(networks: int) -> None:
    """J = -1/N sum w_i log Yhat_i for each network; torch's cross entropy with weights of 1."""
    torch.manual_seed(0)
    logits, truth = torch.randn(networks, 7, 10).double(), torch.randint(0, 10, (networks, 7))
    weights = torch.rand(networks, 7).double()
    predicted = logits.softmax(2).gather(2, truth[..., None])[..., 0]
    found = information_entropy_loss(logits, truth, weights)
    assert torch.allclose(found, -(weights * predicted.log()).sum(1) / 7, atol=1e-12)
    whole = information_entropy_loss(logits, truth, torch.ones_like(weights))
    plain = [torch.nn.functional.cross_entropy(*pair) for pair in zip(logits, truth, strict=True)]
    assert torch.allclose(whole, torch.stack(plain), atol=1e-12)
