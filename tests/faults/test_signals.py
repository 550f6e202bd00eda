"""SIGTERM and Ctrl-C: a job keeps its last finished epoch, and one line says how to go on.

Checkpoints have their usual interval: these jobs take a second, and would write none by themselves.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkout import Checkout
from killed_job import first_shown
from killing import STUDY, only_checkpoint, python, small_study, stamps, start, wait_for_line
from result_files import bits

from cemlib.cli import main
from cemlib.records.files import read_jsonl

CONFIG = ("--config", "study.yaml")
TRAIN = ("train", *CONFIG, "--defence", "clustering", "--seed", "0")
RUN = ("run", *CONFIG, "--slots", "2")
NAMES = {signal.SIGTERM: "terminated", signal.SIGINT: "interrupted"}
TARGET = "results/tiny/runs/clustering/seed0/metrics.json"
SNAKEMAKE = (TARGET, "--cores", "2", "--configfile", "study.yaml", "--quiet", "host")
LOG = "results/tiny/logs/train/clustering/seed0.log"
LATER = pytest.mark.slow
SHORT: dict[str, Any] = STUDY | {
    "attacks": {n: STUDY["attacks"][n] for n in ("decoder", "refinement", "linear", "mean_image")}
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the finished trainings, not to be changed."""
    folder = tmp_path_factory.mktemp("signals")
    (folder / "study.yaml").write_text(yaml.safe_dump(SHORT, sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in ("prepare", "train"):
            assert main([command, *CONFIG]) == 0
    return folder


@pytest.fixture
def folder(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in which the test works."""
    copy = Path(shutil.copytree(base, tmp_path / "copy"))
    monkeypatch.chdir(copy)
    return copy


def check_ended(process: "subprocess.Popen[str]", number: signal.Signals) -> None:
    """The process must end as the signal has it, and say so in its last line."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number, out
    assert "Traceback" not in out
    assert out.splitlines()[-1] == f"{NAMES[number]}: run the same command again to continue"


def epochs_kept(folder: Path) -> int:
    """Epochs in the only checkpoint that is left."""
    return len(only_checkpoint(folder / "results").load()[1]["history"])


def wait_for_epoch(log: Path, process: "subprocess.Popen[str]") -> None:
    """Wait until the training that the process has started is through its fifth epoch."""
    while not log.is_file() or " epoch 5/" not in log.read_text():
        assert process.poll() is None
        time.sleep(0.005)


def go_on(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> int:
    """Run the same command again; returns the first epoch or batch that it shows."""
    capsys.readouterr()
    assert main(command) == 0
    return first_shown(capsys.readouterr().err)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=LATER)])
def test_a_training_keeps_its_last_finished_epoch(
    base: Path, folder: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    training = python("-m", "cemlib", *TRAIN)
    wait_for_line(training, " epoch 5/")
    time.sleep(0.03)  # into the middle of an epoch, whose steps must leave no trace
    training.send_signal(number)
    check_ended(training, number)
    written = len(read_jsonl(folder / "results/tiny/runs/clustering/seed0/history.jsonl"))
    kept = epochs_kept(folder)
    assert 5 <= kept < SHORT["train"]["epochs"]
    assert written - kept in (0, 1)  # the signal may fall between the two
    assert go_on(TRAIN, capsys) == kept + 1
    assert bits(folder / "results/tiny") == bits(base / "results/tiny")
    assert not list((folder / "results/.checkpoints").iterdir())


@LATER
@pytest.mark.parametrize(
    ("name", "line"), [("decoder", " epoch 5/"), ("refinement", "seed0 batch 3/")]
)
def test_an_attack_keeps_what_is_finished(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, line: str
) -> None:
    """Epochs of a decoder; of an optimisation, the images that are found."""
    for each in dict.fromkeys(["decoder", name]):
        assert main(["attack", "--attack", each, *CONFIG]) == 0
    expected = bits(folder / "results/tiny")
    command = ("attack", *CONFIG, "--attack", name)
    attack = python("-m", "cemlib", *command)
    wait_for_line(attack, line)
    attack.send_signal(signal.SIGTERM)
    check_ended(attack, signal.SIGTERM)
    tensors, state = only_checkpoint(folder / "results").load()
    finished = len(state["history"]) if name == "decoder" else len(tensors)
    assert finished >= 3
    assert go_on(command, capsys) == finished + 1
    assert bits(folder / "results/tiny") == expected


@pytest.mark.parametrize(
    ("number", "group"),
    [
        pytest.param(signal.SIGTERM, False, marks=LATER),
        pytest.param(signal.SIGTERM, True, marks=LATER),
        (signal.SIGINT, True),
    ],
)
def test_the_runner_ends_its_workers_likewise(
    base: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    group: bool,
) -> None:
    """Sent to the group, as by a terminal or a scheduler, a signal reaches the workers as well."""
    (folder / "results/tiny/runs/clustering/seed0/metrics.json").unlink()
    log, runner = folder / LOG, python("-m", "cemlib", *RUN)
    wait_for_epoch(log, runner)
    (os.killpg if group else os.kill)(runner.pid, number)
    check_ended(runner, number)
    assert log.read_text().splitlines()[-1].startswith("terminated: ")
    assert "Traceback" not in log.read_text()
    kept = epochs_kept(folder)
    assert kept >= 5
    assert go_on(TRAIN, capsys) == kept + 1
    done = bits(folder / "results/tiny", left_out=("logs/", "config.json"))
    assert done == bits(base / "results/tiny", left_out=("logs/",))


def started_snakemake(root: Path) -> tuple[Checkout, "subprocess.Popen[str]"]:
    """Snakemake in a checkout of its own, when its training is in the fifth epoch."""
    place = small_study(root, SHORT, interval=20.0)
    workflow = start(place, *SNAKEMAKE, module="snakemake")
    wait_for_epoch(place.root / LOG, workflow)
    return place, workflow


@LATER
def test_ctrl_c_at_snakemake_reaches_its_jobs(base: Path, tmp_path: Path) -> None:
    """As from a terminal, which sends it to all; the same command goes on without more ado."""
    place, workflow = started_snakemake(tmp_path / "checkout")
    os.killpg(workflow.pid, signal.SIGINT)
    out, _ = workflow.communicate(timeout=120)
    assert workflow.returncode != 0
    assert "Traceback" not in out
    said = (place.root / LOG).read_text()
    assert said.splitlines()[-1] == "interrupted: run the same command again to continue"
    kept = epochs_kept(place.root)
    again = place.snakemake(TARGET)
    assert again.code == 0, again.output
    assert first_shown((place.root / LOG).read_text()) == kept + 1
    # The records name the commit, and the checkout is none.
    done, expected = (
        bits(folder / "runs/clustering/seed0", left_out=("metrics.json",))
        for folder in (place.results, base / "results/tiny")
    )
    assert done == expected


@LATER
def test_snakemake_lets_its_jobs_end_after_sigterm(tmp_path: Path) -> None:
    place, workflow = started_snakemake(tmp_path / "checkout")
    workflow.send_signal(signal.SIGTERM)
    out, _ = workflow.communicate(timeout=120)
    assert "Traceback" not in out
    before = stamps(place.results)
    assert before.keys() == {"runs/clustering/seed0/metrics.json"}
    assert place.snakemake(TARGET).jobs == []
    assert stamps(place.results) == before
