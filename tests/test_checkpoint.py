"""Checkpoints: what is put in comes out, and training goes on as if nothing had happened."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cemlib.numerics.optim import SGD, Adam, Optimiser
from cemlib.records.checkpoint import (
    Checkpoint,
    copied,
    restore_training,
    training_state,
)

OPTIMISERS: dict[str, Callable[[list[nn.Parameter]], Optimiser]] = {
    "sgd": lambda weights: SGD(weights, momentum=0.9, weight_decay=1e-2),
    "adam": lambda weights: Adam(weights, weight_decay=1e-2),
}
Modules = dict[str, nn.Module]


def modules(seed: int) -> Modules:
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2)
    )
    return {"model": model.to(memory_format=torch.channels_last), "late": nn.Linear(2, 2)}


def optimiser_of(kind: str, parts: Modules) -> Optimiser:
    return OPTIMISERS[kind]([weights for part in parts.values() for weights in part.parameters()])


def step(parts: Modules, optimiser: Optimiser, number: int, late_from: int) -> None:
    """One update; the part `late` joins at a later step and has no optimiser state before."""
    images = torch.rand(8, 3, 4, 4, generator=torch.Generator().manual_seed(number))
    out = parts["model"](images)
    if number >= late_from:
        out = parts["late"](out)
    optimiser.zero_grad()
    out.square().mean().backward()
    optimiser.step(0.05)


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.parametrize(("stop", "late_from"), [(0, 0), (1, 0), (3, 0), (3, 3), (3, 5)])
def test_a_restored_training_goes_on_bit_for_bit(
    tmp_path: Path, kind: str, stop: int, late_from: int
) -> None:
    alone, checkpoint = modules(0), Checkpoint(tmp_path / "job")
    optimiser = optimiser_of(kind, alone)
    for number in range(8):
        if number == stop:
            checkpoint.save(training_state(alone | {"optimiser": optimiser}), {})
        step(alone, optimiser, number, late_from)
    restored = modules(1)
    fresh = optimiser_of(kind, restored)
    restore_training(checkpoint.load()[0], restored | {"optimiser": fresh})
    for number in range(stop, 8):
        step(restored, fresh, number, late_from)
    for name, part in alone.items():
        for key, tensor in part.state_dict().items():
            assert torch.equal(tensor, restored[name].state_dict()[key]), (name, key)


def test_tensors_and_numbers_survive_to_the_last_bit(tmp_path: Path) -> None:
    tensors: dict[str, Tensor] = {
        "double": torch.rand(3, dtype=torch.float64),
        "half": torch.rand(2, 2).bfloat16(),
        "count": torch.tensor(7),
        "strided": torch.rand(4, 6).T,
        "empty": torch.zeros(0, 3),
    }
    state = {"history": [{"loss": 0.1 + 0.2, "lr": 1e-5}], "text": "Zürich", "nothing": None}
    Checkpoint(tmp_path / "job").save(tensors, state)
    found = Checkpoint(tmp_path / "job").load()
    assert found[1] == state
    assert found[0].keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[0][name].dtype == tensor.dtype
        assert torch.equal(found[0][name], tensor)


def test_where_nothing_was_saved_nothing_is_loaded(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "job")
    assert checkpoint.load() is None
    checkpoint.remove()
    checkpoint.save({}, {})
    checkpoint.remove()
    assert checkpoint.load() is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_is_written_when_due_or_interrupted(tmp_path: Path) -> None:
    patient = Checkpoint(tmp_path / "patient", interval=1e9)

    def interrupted() -> None:
        weights = torch.zeros(1)
        with patient.written_when_interrupted():
            for number in range(3):
                weights += 1
                state = copied({"x": weights}), {"number": number}
                patient.keep(state)
                assert not patient.path.exists()
            weights += 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert patient.load() == ({"x": torch.full((1,), 3.0)}, {"number": 2})
    eager = Checkpoint(tmp_path / "eager", interval=0.0)
    eager.keep(({}, {"number": 7}))
    assert eager.load() == ({}, {"number": 7})
