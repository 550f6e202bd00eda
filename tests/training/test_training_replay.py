"""A training step is fit to be replayed: its kernels alone, run again, are the next step."""

from typing import Any

import pytest
import torch
from tape import TapeReplay
from tiny_study import RAW, blob_data, tiny_plan

import cemlib.training.step
from cemlib.surrogates import SURROGATES
from cemlib.training.setup import Setup
from cemlib.training.trainer import Trainer

DEFENCES = [*SURROGATES, *(name for name in RAW["defences"] if name.startswith("by_"))]
OTHERS = ["often", "full", "none", "nopeek", "arl", "undressed", "everything", "private"]


def trainer(place: Any, defence: str, device: str = "cpu", **train: Any) -> Trainer:
    plan, data = tiny_plan(place, batch_size=16, epochs=8, **train), blob_data()
    setup = Setup(plan.study, defence, 0)
    return setup.trainer(data.to(device), setup.network(data))


def epochs(subject: Trainer) -> int:
    """Past every milestone and pruning, and two with the surrogate."""
    return 4 if subject.surrogate is None else max(4, subject.surrogate.start_epoch + 1)


def course(subject: Trainer) -> list[dict[str, Any]]:
    rows = [subject.epoch(number) for number in range(1, epochs(subject) + 1)]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.parametrize("defence", [*DEFENCES, *OTHERS])
def test_replayed_steps_train_as_called_ones(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, defence: str
) -> None:
    train = {"fit_features": "training_pass"} if defence == "clustering" else {}
    called = trainer(tmp_path, defence, **train)
    expected = course(called)
    monkeypatch.setattr(cemlib.training.step, "Replay", TapeReplay)
    before = TapeReplay.count
    replayed = trainer(tmp_path, defence, **train)
    for row, other in zip(expected, course(replayed), strict=True):
        # Weighted with a lambda_eff that a replay reads in float32.
        assert other.pop("train_loss") == pytest.approx(row.pop("train_loss"), rel=1e-7)
        assert other == row
    if defence != "full":  # whose every step factorises
        assert TapeReplay.count > before + epochs(replayed)  # at least one step of each
    for name, module in called.defended.modules.items():
        other = replayed.defended.modules[name].state_dict()
        for key, tensor in module.state_dict().items():
            assert torch.equal(other[key], tensor), f"{name}.{key}"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("defence", [*DEFENCES, *OTHERS])
def test_a_graph_trains_as_called_steps(tmp_path: Any, defence: str) -> None:
    """On a GPU, where algorithms may differ in rounding; slowly, so that it does not grow."""
    called, replayed = (trainer(tmp_path, defence, device="cuda", lr=1e-3) for _ in range(2))
    called.step._replay.captures = False
    for row, other in zip(course(called), course(replayed), strict=True):
        numbers = {name: value for name, value in row.items() if value is not None}
        assert {n: other[n] for n in numbers} == pytest.approx(numbers, rel=0.05, abs=0.01)
