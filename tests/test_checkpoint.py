"""Checkpoints: what is put in comes out, and a damaged one, or that of another job, does not."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from damaging import cut, flipped
from torch import Tensor

from cemlib.records.checkpoint import Checkpoint, copied


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
    torch.testing.assert_close(found[0], tensors, rtol=0, atol=0)


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


@pytest.mark.parametrize(("damage", "times"), [(flipped, 100), (cut, 40)])
def test_every_damage_is_noticed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[bytes, random.Random], bytes],
    times: int,
) -> None:
    checkpoint, draws = Checkpoint(tmp_path / "job"), random.Random(0)
    checkpoint.save({"weights": torch.rand(20)}, {"history": [{"loss": 0.5}]})
    whole = checkpoint.path.read_bytes()
    assert checkpoint.load() is not None
    for _ in range(times):
        checkpoint.path.write_bytes(damage(whole, draws))
        assert checkpoint.load() is None
        line = f"{checkpoint.path}: damaged (its checksum differs); it is ignored, and the job"
        assert capsys.readouterr().err == f"{line} starts from the beginning\n"
    checkpoint.path.write_bytes(whole)
    assert checkpoint.load() is not None


def test_a_checkpoint_of_another_job_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of a strong attack's trials have the same names below different hashes."""
    one, other = (Checkpoint(tmp_path / name / "trials") for name in ("a" * 20, "b" * 20))
    one.save({}, {"results": [0.1]})
    other.folder.mkdir(parents=True)
    shutil.copy(one.path, other.path)
    assert one.load() == ({}, {"results": [0.1]})
    assert other.load() is None
    said = capsys.readouterr().err
    assert said.startswith(f"{other.path}: belongs to another job ({'a' * 20}/trials)")
