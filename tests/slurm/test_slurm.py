"""A study through profiles/slurm on a real Slurm, with one job cancelled and one out of memory."""

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import killing
import psutil
import pytest
from checkout import Checkout, Outcome
from cluster import Cluster, call, missing
from killing import small_study, stamps
from result_files import bits

LACK = missing() or (
    "" if importlib.util.find_spec("snakemake_executor_plugin_slurm") else "requirements-slurm.lock"
)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(LACK), reason=LACK)]

STUDY: dict[str, Any] = killing.STUDY | {
    "reference": "clustering",
    "defences": {
        "clustering": {"surrogate": "clustering"},
        "wild": {"surrogate": {"name": "slot", "lambda": 1.0e15, "scale": 1.0e15}},
    },
    "attacks": {"linear": {}},
}
# The profile looks every 10 s, which is kinder to a controller that many share.
PROFILE = ["--workflow-profile", "profiles/slurm", "--slurm-init-seconds-before-status-checks", "1"]
TRAINED, JUDGE, WILD = "runs/clustering/seed0", "judge", "runs/wild/seed0"


@dataclass(frozen=True)
class Story:
    """What happened: a run with two jobs killed, the run after it, and one on this machine."""

    place: Checkout
    local: Checkout
    killed: Outcome
    again: Outcome
    variables: dict[str, str]
    before: dict[str, tuple[int, int]]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("shared")
    place = small_study(folder / "cluster", STUDY)
    place.configure(STUDY)
    local = place.copy(folder / "local")
    with tempfile.TemporaryDirectory(prefix="slurm-") as short, Cluster(Path(short)):
        killed, variables = run_with_two_killed(place, folder / "killed.log")
        before = stamps(place.results)
        again = finish(start(place, folder / "again.log"), folder / "again.log")
    done = local.python("cemlib", "run", "--config", "study.yaml")
    assert done.returncode == 3  # all is done, and `wild` diverged
    return Story(place, local, killed, again, variables, before)


def start(place: Checkout, log: Path, *options: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "snakemake", *PROFILE, "--configfile", "study.yaml", *options]
    command += ["--quiet", "host"]
    with log.open("wb") as handle:
        return subprocess.Popen(
            command, cwd=place.root, env=place.environment(), stdout=handle, stderr=handle
        )


def finish(process: "subprocess.Popen[bytes]", log: Path) -> Outcome:
    return Outcome(process.wait(1200), log.read_text())


def run_with_two_killed(place: Checkout, log: Path) -> tuple[Outcome, dict[str, str]]:
    """The judge may use less memory than Python does, and a training is cancelled.

    Returns:
        What Snakemake said, and the environment variables of the training.
    """
    process = start(place, log, "--set-resources", "judge:mem_mb=400", "--retries", "0")
    epochs = place.results / "logs/train/clustering/seed0.log"
    while not (epochs.exists() and " epoch " in epochs.read_text()):
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    variables = training(place)
    call("scancel", variables["SLURM_JOB_ID"])
    return finish(process, log), variables


def training(place: Checkout) -> dict[str, str]:
    """Environment variables of the process that trains."""
    words = ["cemlib", "run", "--config", "results/tiny/config.json", "--only"]
    words += ["train/clustering/seed0"]
    for process in psutil.process_iter(["cmdline"]):
        if process.info["cmdline"][2:8] == words and process.cwd() == str(place.root):
            return process.environ()
    raise AssertionError("nobody trains")


def test_killed_jobs_are_reported_with_their_cause(story: Story) -> None:
    said = story.killed.output
    assert story.killed.code != 0
    assert said.count("SLURM status is: 'CANCELLED'") == 1, said
    report = r"Error in rule {}:\n +message: SLURM-job '\d+' failed(?s:.*?)\n +log: \S+, (\S+) "
    assert re.search(report.format("train"), said), said
    judge = re.search(report.format("judge"), said)
    assert judge, said
    assert "exceeded memory limit" in Path(judge[1]).read_text()


def test_what_was_finished_is_not_done_again(story: Story) -> None:
    assert f"{WILD}/metrics.json" in story.before
    assert not {f"{TRAINED}/metrics.json", f"{JUDGE}/metrics.json"} & set(story.before)
    after = stamps(story.place.results)
    assert {name: after[name] for name in story.before} == story.before
    assert not {"prepare"} & story.again.rules
    assert story.again.runs("train") == {("clustering", "0")}


def test_a_cancelled_training_goes_on_from_its_checkpoint(story: Story) -> None:
    log = (story.place.results / "logs/train/clustering/seed0.log").read_text()
    first = next(line for line in log.splitlines() if " epoch " in line)
    assert " epoch 1/" not in first, first


def test_everything_is_as_on_one_machine(story: Story) -> None:
    """Bit by bit, with the diverged run, which is no error."""
    assert story.again.code == 0, story.again.output
    assert story.place.metrics(WILD)["status"] == "failed"
    assert bits(story.place.results) == bits(story.local.results)
    assert not list(story.place.results.with_name(".checkpoints").rglob("state.checkpoint"))


def test_variables_of_a_job(story: Story) -> None:
    """The study's threads, the variables of every job, and the cards that Slurm has given."""
    assert story.variables["OMP_NUM_THREADS"] == "1"
    assert story.variables["OMP_WAIT_POLICY"] == "passive"
    assert story.variables["CUDA_VISIBLE_DEVICES"] in ("0", "1")


def test_the_upload_runs_where_snakemake_does(story: Story) -> None:
    """A node may not reach the store, and SQLite on a shared file system is locked badly."""
    block = story.again.output.split("localrule track:")[1]
    assert "has been submitted with SLURM jobid" not in block
    assert "uploaded" in (story.place.results / "logs/track.log").read_text()
