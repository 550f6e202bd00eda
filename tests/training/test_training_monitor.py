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
        tensors = (torch.tensor(float(value)) for value in values)
        watching.add(dict(zip(NAMES, tensors, strict=True)), samples)
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


def test_an_epoch_starts_from_nothing() -> None:
    watching = monitor([([math.nan, 2, 0.5], 4)])
    watching.begin()
    watching.add(dict(zip(NAMES, torch.tensor([3.0, 5.0, 1.0]), strict=True)), 2)
    assert watching.means(2) == {"features": 3.0, "loss": 5.0, "top1": 1.0}


def test_statistics_keep_their_place_and_carry_no_graph() -> None:
    """What a replayed step writes to must be what is read."""
    watching = Monitor(("x",), CPU)
    kept = []
    for value in (1.0, 3.0):
        watching.add({"x": torch.tensor(value, requires_grad=True)}, 1)
        kept.append(watching._sums._totals)
    assert kept[0] is kept[1]
    assert not kept[0].requires_grad
    assert watching.means(1) == {"x": 2.0}
