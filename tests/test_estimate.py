"""What a study is said to take before it runs, against what its jobs then took."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cemlib.attacks.task import Outcome, Task
from cemlib.config import parse
from cemlib.config.study import JUDGE
from cemlib.evaluation.scene import Scene
from cemlib.numerics.divergence import DivergedError
from cemlib.records.checkpoint import Checkpoint
from cemlib.search import estimate
from cemlib.search.estimate import epoch_seconds, new_trainer, read_data, run_seconds, train_seconds
from cemlib.study.environment import OF_JOBS
from cemlib.study.finished import rerun_job
from cemlib.study.job import prepare_job
from cemlib.study.plan import Plan
from cemlib.study.split import train_job

ROOT = Path(__file__).parents[1]
TINY = ROOT / "tests/configs/tiny.yaml"
WITHIN = 1.5  # a job's peak is told within this factor
ROW = re.compile(r"^(\w+(?: \w+)?) +(\d+) +([\d,.]+) +([\d,.]+) +([\d,]+) +-$", re.MULTILINE)
TOTAL = re.compile(
    r"total by extrapolation: ([\d.]+) core hours; with --slots 2 ([\d.]+) hours and ([\d,]+) MiB"
)
OFTEN = {"prepare": 1, "judge": 1, "train noise": 2, "train clustering": 2, "train gated": 2}
OFTEN |= {"attack decoder": 6, "attack refinement": 6, "attack closed_form": 6}


def cemlib(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | OF_JOBS | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "cemlib", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which nothing has run, and what `estimate` said there of the tiny study."""
    folder = tmp_path_factory.mktemp("study")
    done = cemlib(folder, "estimate", "--config", str(TINY), "--device", "cpu", "--slots", "2")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_every_kind_of_job_is_told(told: tuple[Path, str]) -> None:
    rows = ROW.findall(told[1])
    assert {kind: int(jobs) for kind, jobs, *_ in rows} == OFTEN
    assert all(number(seconds) > 0 and number(peak) > 100 for *_, seconds, _, peak in rows)
    total = TOTAL.match(told[1].splitlines()[-1])
    assert total, told[1]
    hours = sum(int(jobs) * number(seconds) for _, jobs, seconds, *_ in rows) / 3600
    assert number(total[1]) == pytest.approx(hours, abs=0.01)
    assert number(total[2]) == pytest.approx(hours / 2, abs=0.01)
    assert number(total[3]) == pytest.approx(2 * max(number(row[-1]) for row in rows), abs=2)


def test_jobs_take_the_memory_that_was_told(told: tuple[Path, str]) -> None:
    folder, said = told
    rows = {kind: number(peak) for kind, *_, peak in ROW.findall(said)}
    run = "runs/clustering/seed0"
    jobs = {
        "judge": ("judge", "judge"),
        "train clustering": ("train/clustering/seed0", run),
        "attack decoder": ("attack/clustering/seed0/decoder", f"{run}/attacks/decoder-public_data"),
    }
    for kind, (job, place) in jobs.items():
        done = cemlib(folder, "run", "--only", job, "--config", str(TINY), "--device", "cpu")
        assert done.returncode == 0, done.stderr
        record = json.loads((folder / "results/tiny" / place / "metrics.json").read_text())
        assert 1 / WITHIN < rows[kind] / record["peak_memory_mb"] < WITHIN, kind


@pytest.fixture
def prepared(tmp_path: Path) -> Plan:
    study = yaml.safe_load(TINY.read_text()) | {"results": str(tmp_path)}
    study["train"] |= {"fit_features": "training_pass"}
    plan = Plan(parse(study))
    list(rerun_job(prepare_job(plan)))
    return plan


def test_steps_that_are_left_out_are_counted(
    prepared: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 3 steps two are taken; all images are fitted, those of the third step too."""
    monkeypatch.setattr(estimate, "STEPS", 1)
    data = read_data(train_job(prepared, "noise", 0, "cpu"))
    trainer = new_trainer(prepared.study, "clustering", 0, data)
    fitted = []
    monkeypatch.setattr(trainer.surrogate, "fit", lambda features, _: fitted.append(len(features)))
    seconds = epoch_seconds(trainer, 1)
    steps = trainer.step
    assert isinstance(steps, estimate.FewSteps)
    assert (len(trainer.batches.sizes), len(steps.seconds)) == (3, 2)
    assert steps.left_out() == steps.seconds[1]
    assert seconds > sum(steps.seconds) + steps.left_out()
    assert fitted == [180]


def test_a_training_that_diverges_is_told(tmp_path: Path) -> None:
    wild = {"surrogate": {"name": "slot", "lambda": 1.0e15, "scale": 1.0e15}}
    study = yaml.safe_load(TINY.read_text()) | {"results": str(tmp_path)}
    plan = Plan(parse(study | {"defences": {"noise": {}, "wild": wild}}))
    list(rerun_job(prepare_job(plan)))
    assert train_seconds(train_job(plan, "wild", 0, "cpu")) > 0


def test_an_attack_is_measured_by_parts_until_one_takes_a_while(
    prepared: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attack of its own kind, whose clock is told how long it takes."""
    found = []

    def attack(task: Task) -> Outcome:
        found.append((len(task.own.images), task.options["epochs"], len(task.released)))
        if len(found) == 1:
            raise DivergedError("too short a course")
        return Outcome(task.released, {})

    def seconds_of(work: Callable[[], object]) -> float:
        work()
        images, epochs, _ = found[-1]
        return images * epochs / 300

    monkeypatch.setattr(estimate, "seconds_of", seconds_of)
    monkeypatch.setattr(estimate, "ENOUGH", 1.0)
    data = read_data(train_job(prepared, "noise", 0, "cpu"))
    runs = ("noise", JUDGE)
    victim, judge = (new_trainer(prepared.study, name, 0, data).deployed for name in runs)
    scene = Scene(prepared.study, "noise", 0, data, victim, judge)
    task = scene.task("decoder", "train_data", Checkpoint(prepared.layout.root / "none"))
    long = replace(task, options=task.options | {"epochs": 50})
    assert run_seconds(attack, long) == pytest.approx(180 * 50 / 300)
    assert found == [(64, 3, 36), (128, 3, 72)]  # of 180 images and 100 releases


def test_images_that_are_not_there_are_told(tmp_path: Path) -> None:
    study = yaml.safe_load(TINY.read_text())
    study["data"] = {"source": "folder", "root": str(tmp_path / "nowhere")}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    done = cemlib(tmp_path, "estimate", "--config", "study.yaml", "--device", "cpu")
    assert done.returncode == 2
    assert f"error: {tmp_path}/nowhere" in done.stderr


@pytest.mark.parametrize("system", ["pctc", "federated"])
def test_other_systems_are_refused(system: str, tmp_path: Path) -> None:
    path = ROOT / f"tests/configs/tiny_{system}.yaml"
    done = cemlib(tmp_path, "estimate", "--config", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"this is a study of {system}" in done.stderr
