"""A training step is fit to be replayed: its kernels alone, run again, are the next step."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from result_files import timeless
from tape import Called, TapeReplay
from tiny_study import RAW, blob_data, tiny_trainer

import cemlib.training.step
from cemlib.numerics.precision import set_up
from cemlib.numerics.replay import Replay
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
    # Fewer where `logdet` starts anew after a pruning, since it factorises often then.
    assert TapeReplay.count > before + 2 * len(expected)
    models = called.deployed.model, replayed.deployed.model
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("defence", DEFENCES)
def test_a_graph_trains_as_called_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defence: str
) -> None:
    """On a GPU, where algorithms may differ in rounding; slowly, so that it does not grow."""
    set_up(torch.device("cuda"), 1)
    data, train = blob_data().to("cuda"), TRAIN | {"lr": 1e-3}
    monkeypatch.setattr(cemlib.training.step, "Replay", Called)
    expected = course(tiny_trainer(tmp_path, defence, data, **train))
    monkeypatch.setattr(cemlib.training.step, "Replay", Replay)
    replayed = tiny_trainer(tmp_path, defence, data, **train)
    for row, other in zip(expected, course(replayed), strict=True):
        numbers = {name: value for name, value in row.items() if value is not None}
        assert {n: other[n] for n in numbers} == pytest.approx(numbers, rel=0.05, abs=0.01)
    if defence != "full":  # whose every step factorises
        assert replayed.step._replay._graph is not None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_graph_draws_new_numbers_and_reads_new_rates() -> None:
    device = torch.device("cuda")
    draws, out = torch.Generator(device), torch.zeros(8, device=device)

    def steps(kind: type[Replay]) -> torch.Tensor:
        replay, rows = kind(device, lambda: [draws]), []
        for seed in (1, 2):
            draws.manual_seed(seed)
            for number in range(8):
                rate = replay.shared("rate", float(number))
                noise = partial(torch.randn, 8, generator=draws, device=device)
                replay(lambda noise=noise, rate=rate: out.copy_(noise() + rate), None)
                rows.append(out.clone())
        return torch.stack(rows)

    assert torch.equal(steps(Replay), steps(Called))
