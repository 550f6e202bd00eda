"""The monitor of an epoch against plain sums, and the faults it finds."""

import math

import pytest
import torch

from cemlib.errors import DivergedError
from cemlib.training.monitor import Monitor

NAMES = ("features", "loss", "top1")
CPU = torch.device("cpu")


def monitor(steps: list[tuple[list[float], int]]) -> Monitor:
    watching = Monitor(NAMES, CPU)
    for values, samples in steps:
        watching.add([torch.tensor(value) for value in values], samples)
    return watching


def test_means_are_over_samples() -> None:
    found = monitor([([1, 2, 0.5], 4), ([3, 5, 1.0], 2)]).means(1)
    assert found == pytest.approx({"features": 10 / 6, "loss": 3.0, "top1": 4 / 6})


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_first_fault_is_named_though_all_later_steps_are_spoilt(bad: float) -> None:
    steps = [([1, 1, 1], 4), ([1, bad, 1], 4), ([bad, bad, bad], 4)]
    with pytest.raises(DivergedError, match="epoch 7, batch 2: loss is not finite"):
        monitor(steps).means(7)


def test_of_several_faults_in_a_step_the_first_of_the_order_is_blamed() -> None:
    with pytest.raises(DivergedError, match="epoch 1, batch 1: features is not finite"):
        monitor([([math.nan, math.nan, 0], 4)]).means(1)


def test_statistics_carry_no_graph() -> None:
    watching = Monitor(("x",), CPU)
    watching.add([torch.ones((), requires_grad=True)], 1)
    assert not watching.sums.requires_grad
