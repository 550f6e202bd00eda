"""The strength that reaches an accuracy, where the true one is known in closed form."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cemlib.search import bracket

WITHIN = 0.3


def logistic(middle: float) -> Callable[[float], float]:
    """From 97 % without protection to 85 %: half the way at `middle`."""
    return lambda value: 97 - 12 * value / (value + middle)


def inverse(middle: float, accuracy: float) -> float:
    fallen = (97 - accuracy) / 12
    return middle * fallen / (1 - fallen)


class Counted:
    """Counts how often each strength is measured."""

    def __init__(self, accuracy: Callable[[float], float]) -> None:
        self.accuracy, self.calls = accuracy, list[float]()

    def __call__(self, value: float) -> float:
        self.calls.append(value)
        return self.accuracy(value)


def positive(value: float) -> bool:
    return value >= 0


@settings(max_examples=200, deadline=None)
@given(
    middle=st.floats(0.1, 1000),
    start=st.floats(0.5, 200),
    target=st.floats(86, 96.5),
)
def test_any_reachable_accuracy_is_matched_with_few_measurements(
    middle: float, start: float, target: float
) -> None:
    accuracy = Counted(logistic(middle))
    found = bracket.find(accuracy, target, WITHIN, bracket.Strength(start, positive))
    assert found.end == bracket.MATCHED
    low, high = (inverse(middle, target + side * (WITHIN + 1e-9)) for side in (1, -1))
    assert low <= found.value <= high
    assert len(accuracy.calls) == len(set(accuracy.calls)) <= 2 + 8 + 12


def test_what_no_protection_does_not_reach_is_said_after_two_measurements() -> None:
    accuracy = Counted(lambda value: 84.1 - value)
    assert bracket.find(accuracy, 85, WITHIN, bracket.Strength(16.0, positive)) == bracket.Found(
        bracket.UNREACHED, 0
    )
    assert accuracy.calls == [16.0, 0]


def test_what_the_strongest_setting_does_not_reach_is_said() -> None:
    rate = bracket.Strength(0.2, lambda value: 0 <= value < 1)
    found = bracket.find(lambda value: 99 - value, 85, WITHIN, rate)
    assert found.end == bracket.UNREACHED
    assert 1 / 1.04 < found.value < 1


@pytest.mark.parametrize(("accuracy", "powers"), [(99, range(-2, 7)), (60, range(6, -3, -1))])
def test_a_strength_is_multiplied_or_divided_by_four_eight_times(
    accuracy: float, powers: range
) -> None:
    flat = Counted(lambda _: accuracy)
    strength = bracket.Strength(4.0 ** powers[0], lambda value: value > 0)
    found = bracket.find(flat, 85, WITHIN, strength)
    assert flat.calls == [4.0**power for power in powers]
    assert found == bracket.Found(bracket.UNREACHED, 4.0 ** powers[-1])


@pytest.mark.parametrize("start", [0.02, 0.9])
def test_a_larger_share_may_be_the_weaker_one(start: float) -> None:
    keep = bracket.Strength(start, lambda value: 0 < value <= 1, rising=True)
    found = bracket.find(lambda value: 60 + 40 * value, 85, WITHIN, keep)
    assert found.end == bracket.MATCHED
    assert found.value == pytest.approx(0.625, abs=WITHIN / 40)


def test_whole_numbers_stay_whole() -> None:
    clusters = bracket.Strength(5, lambda value: value >= 1, whole=True)
    found = bracket.find(lambda value: 97 - 0.25 * value, 92, WITHIN, clusters)
    assert found.end == bracket.MATCHED
    assert isinstance(found.value, int)
    assert 19 <= found.value <= 21


def test_a_step_between_two_strengths_ends_the_search_beside_it() -> None:
    accuracy = Counted(lambda value: 99 if value < 20 else 60)
    found = bracket.find(accuracy, 85, WITHIN, bracket.Strength(16.0, positive))
    assert found.end == bracket.BETWEEN
    assert found.value < 20
    assert 20 / found.value < 1.02
    assert len(accuracy.calls) <= 2 + 12


def test_jumps_that_mislead_brents_method_end_the_search_after_twelve_steps() -> None:
    """Without the limit it would measure more."""
    jumps = {20: 99.0, 22: 88.0, 24: 85.4, math.inf: 20.0}
    accuracy = Counted(lambda value: next(jumps[end] for end in jumps if value < end))
    found = bracket.find(accuracy, 85, WITHIN, bracket.Strength(16.0, positive))
    assert found.end == bracket.BETWEEN
    assert len(accuracy.calls) == 2 + 12


@pytest.mark.parametrize("seed", range(20))
def test_noise_does_not_keep_it_from_ending(seed: int) -> None:
    draws, true = random.Random(seed), logistic(30)
    accuracy = Counted(lambda value: true(value) + draws.gauss(0, 0.5))
    found = bracket.find(accuracy, 91, WITHIN, bracket.Strength(16.0, positive))
    assert len(accuracy.calls) <= 2 + 8 + 12
    assert math.isclose(true(found.value), 91, abs_tol=WITHIN + 4 * 0.5)
