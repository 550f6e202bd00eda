"""Late improvement, by hand."""

import math

import pytest

from cemlib.attacks.convergence import converged, late_improvement


def test_twenty_epochs_are_compared_with_the_eighteenth() -> None:
    val = [float(40 - epoch) for epoch in range(1, 21)]  # 22 at epoch 18, 20 at epoch 20
    assert late_improvement(val) == pytest.approx(2 / 22)
    assert not converged(val)


def test_the_last_tenth_is_rounded_up() -> None:
    assert late_improvement([9.0, 8.0, 4.0, 3.0, *[2.0] * 6, 1.0]) == pytest.approx(0.5)
    # Eleven epochs: the last two are the last tenth, and the ninth is compared.
    assert late_improvement([9.0] * 8 + [4.0, 2.0, 3.0]) == pytest.approx(0.25)


def test_ten_epochs_have_a_last_tenth_of_one() -> None:
    assert late_improvement([9.0] * 8 + [4.0, 3.0]) == pytest.approx(0.25)
    assert late_improvement([4.0, 3.0]) == pytest.approx(0.25)


def test_an_error_that_rose_has_converged() -> None:
    assert late_improvement([2.0, 3.0]) == pytest.approx(-0.5)
    assert converged([2.0, 3.0])


def test_the_tolerance_is_the_largest_improvement_allowed() -> None:
    assert converged([1.0, 0.9901])
    assert not converged([1.0, 0.9899])
    assert converged([1.0, 0.75], tolerance=0.25)
    assert not converged([1.0, 0.7499], tolerance=0.25)


@pytest.mark.parametrize("val", [[], [0.5]])
def test_one_epoch_shows_nothing(val: list[float]) -> None:
    assert late_improvement(val) == math.inf
    assert not converged(val, tolerance=1e9)


def test_a_perfect_answer_has_nothing_left_to_improve() -> None:
    assert late_improvement([0.0, 0.0]) == 0.0
    assert late_improvement([1.0, 0.0]) == 1.0
