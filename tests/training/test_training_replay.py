"""A training step is fit to be replayed: its kernels alone, run again, are the next step."""

from pathlib import Path
from typing import Any

import pytest
import torch
from result_files import timeless
from tape import TapeReplay
from tiny_study import RAW, blob_data, tiny_trainer

import cemlib.training.step
from cemlib.surrogates import SURROGATES
from cemlib.training.trainer import Trainer

DEFENCES = [*SURROGATES, *(name for name in RAW["defences"] if name.startswith("by_"))]
DEFENCES += ["often", "full", "none", "nopeek", "bido", "fisher", "arl"]
DEFENCES += ["undressed", "everything", "private"]
TRAIN: dict[str, Any] = {"batch_size": 16, "epochs": 8}


def course(subject: Trainer) -> list[dict[str, Any]]:
    """Train four epochs: past every milestone and pruning, or two before a late surrogate acts."""
    late = 0 if subject.surrogate is None else max(0, subject.surrogate.start_epoch - 3)
    return timeless([subject.epoch(late + number) for number in (1, 2, 3, 4)])


@pytest.mark.parametrize("defence", DEFENCES)
def test_replayed_steps_train_as_called_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defence: str
) -> None:
    called = tiny_trainer(tmp_path, defence, **TRAIN)
    expected = course(called)
    monkeypatch.setattr(cemlib.training.step, "Replay", TapeReplay)
    before = TapeReplay.count
    replayed = tiny_trainer(tmp_path, defence, **TRAIN)
    for row, other in zip(expected, course(replayed), strict=True):
        # Weighted with a lambda_eff that a replay reads in float32.
        assert other.pop("train_loss") == pytest.approx(row.pop("train_loss"), rel=1e-7)
        assert other == row
    if defence != "full":  # whose every step factorises
        assert TapeReplay.count > before + len(expected)  # at least one step of each
    for name, module in called.defended.modules.items():
        other = replayed.defended.modules[name].state_dict()
        for key, tensor in module.state_dict().items():
            assert torch.equal(other[key], tensor), f"{name}.{key}"


@pytest.mark.parametrize("defence", ["noise", "clustering", "everything"])
def test_replayed_steps_of_one_cycle_train_as_called_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defence: str
) -> None:
    """Up to the rounding of rates, which differ from step to step and are read in float32."""
    train = TRAIN | {"schedule": "one_cycle", "nesterov": True}
    called = tiny_trainer(tmp_path, defence, **train)
    expected = course(called)
    monkeypatch.setattr(cemlib.training.step, "Replay", TapeReplay)
    before, replayed = TapeReplay.count, tiny_trainer(tmp_path, defence, **train)
    for row, other in zip(expected, course(replayed), strict=True):
        numbers = {name: value for name, value in row.items() if value is not None}
        assert {k: other[k] for k in numbers} == pytest.approx(numbers, rel=1e-3, abs=1e-5)
    assert TapeReplay.count > before + 10
    models = called.deployed.model, replayed.deployed.model
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("defence", DEFENCES)
def test_a_graph_trains_as_called_steps(tmp_path: Path, defence: str) -> None:
    """On a GPU, where algorithms may differ in rounding; slowly, so that it does not grow."""
    data = blob_data().to("cuda")
    called, replayed = (
        tiny_trainer(tmp_path, defence, data, **TRAIN | {"lr": 1e-3}) for _ in range(2)
    )
    called.step._replay.captures = False
    for row, other in zip(course(called), course(replayed), strict=True):
        numbers = {name: value for name, value in row.items() if value is not None}
        assert {n: other[n] for n in numbers} == pytest.approx(numbers, rel=0.05, abs=0.01)
