"""A damaged checkpoint, or one of another job, is passed over with a line; no number is wrong."""

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from damaging import cut, flipped
from killed_job import Dying, first_shown
from killing import only_checkpoint
from result_files import bits
from tiny_study import tiny_plan, trained

from cemlib.records.checkpoint import Checkpoint
from cemlib.study.split import train_job
from cemlib.training.job import run

SETTINGS = {"epochs": 9, "select": "best_val"}
DEFENCE = "clustering"


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


def test_a_job_with_a_damaged_checkpoint_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = trained(tmp_path / "alone", DEFENCE, **SETTINGS)
    plan = tiny_plan(tmp_path / "died", **SETTINGS)
    job, dying = train_job(plan, DEFENCE, 0), partial(Dying, interval=0.0, writes_left=4)
    with monkeypatch.context() as patch:
        patch.setattr("cemlib.training.job.Checkpoint", dying)
        with pytest.raises(KeyboardInterrupt):
            run(job)
    checkpoint = only_checkpoint(tmp_path / "died")
    checkpoint.path.write_bytes(flipped(checkpoint.path.read_bytes(), random.Random(1)))
    capsys.readouterr()
    run(job)
    said = capsys.readouterr().err
    assert said.startswith(f"{checkpoint.path}: damaged")
    assert first_shown(said) == 1
    assert bits(plan.layout.run(DEFENCE, 0).root) == bits(alone.root)


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
