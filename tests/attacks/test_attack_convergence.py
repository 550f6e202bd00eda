"""Late improvement, by hand."""

import math

import pytest

from cemlib.attacks.budget import late_improvement
from cemlib.evaluation.scores import convergence

FALLING = [float(40 - epoch) for epoch in range(1, 21)]  # 22 at epoch 18, 20 at epoch 20


@pytest.mark.parametrize(
    ("val", "expected"),
    [
        (FALLING, 2 / 22),
        ([9.0, 8.0, 4.0, 3.0, *[2.0] * 6, 1.0], 0.5),
        # Of eleven epochs the last two are the last tenth, so nine come before it.
        ([9.0] * 8 + [4.0, 2.0, 3.0], 0.5),
        ([9.0] * 7 + [4.0, 8.0, 3.0, 5.0], 0.25),
        ([9.0] * 7 + [4.0, 8.0, 6.0, 5.0], 0.0),  # fluctuates, without a new best
        ([9.0] * 8 + [4.0, 3.0], 0.25),
        ([4.0, 3.0], 0.25),
        ([2.0, 3.0], 0.0),
        ([0.0, 0.0], 0.0),  # nothing left to improve
        ([1.0, 0.0], 1.0),
        ([], math.inf),
        ([0.5], math.inf),
    ],
)
def test_the_best_epoch_is_compared_with_the_best_before_the_last_tenth(
    val: list[float], expected: float
) -> None:
    assert late_improvement(val) == pytest.approx(expected)
    assert convergence(val)["converged"] == ((expected <= 0.01) if val else None)


def test_the_tolerance_is_the_largest_improvement_allowed() -> None:
    assert convergence([1.0, 0.9901])["converged"]
    assert not convergence([1.0, 0.9899])["converged"]
