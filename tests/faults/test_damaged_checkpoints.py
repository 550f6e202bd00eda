"""A damaged checkpoint, or one of another job, is passed over with a line; no number is wrong."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from damaging import cut, flipped
from killed_job import first_shown
from killing import kill, only_checkpoint, start_training, wait_for_line
from result_files import bits
from tiny_study import tiny_plan, trained

from cemlib.records.checkpoint import Checkpoint
from cemlib.records.layout import RunFolder
from cemlib.study.split import train_job
from cemlib.training.job import run

SETTINGS = {"epochs": 9, "select": "best_val"}
DEFENCE = "clustering"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results with the checkpoint of a training that was killed, not to be changed."""
    results = tmp_path_factory.mktemp("damaged") / "killed"
    tiny_plan(results, **SETTINGS)
    victim = start_training(results, epochs=9)
    wait_for_line(victim, " epoch 4/")
    kill(victim)
    return results


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return trained(tmp_path_factory.mktemp("alone"), DEFENCE, **SETTINGS)


@pytest.fixture
def results(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "copy"))


@pytest.mark.parametrize(("damage", "times"), [(flipped, 100), (cut, 40)])
def test_every_damage_is_noticed(
    results: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[bytes, random.Random], bytes],
    times: int,
) -> None:
    checkpoint, draws = only_checkpoint(results), random.Random(0)
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
    results: Path, alone: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = only_checkpoint(results)
    checkpoint.path.write_bytes(flipped(checkpoint.path.read_bytes(), random.Random(1)))
    plan = tiny_plan(results, **SETTINGS)
    run(train_job(plan, DEFENCE, 0))
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
