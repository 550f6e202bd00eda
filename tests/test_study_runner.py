"""Whole studies without Snakemake: what runs again, what failures and kills leave behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import yaml

from cemlib.config import load, parse
from cemlib.study import workers as workers_module
from cemlib.study.environment import OF_JOBS
from cemlib.study.finished import belonging
from cemlib.study.finished import finished as is_finished
from cemlib.study.job import AnyJob, Call, Job
from cemlib.study.plan import Plan
from cemlib.study.process import Outcome
from cemlib.study.schedule import Schedule
from cemlib.study.split import jobs as split_jobs
from cemlib.study.workers import Ended, Workers

ROOT = Path(__file__).parents[1]
STUDY: dict[str, Any] = {
    "experiment": "short",
    "seeds": [0],
    "data": {"source": "digits", "image_size": 16, "train_limit": 200, "test_limit": 60},
    "model": {"name": "small", "cut": 4},
    "train": {"epochs": 4, "batch_size": 32, "milestones": [1]},
    "defences": {"noise": {}, "clustering": {"surrogate": "clustering"}},
    "attacks": {"decoder": {"epochs": 1, "blocks": 1, "width": 8}, "linear": {}, "mean_image": {}},
}
PLAN = Plan(parse(STUDY))
TRAININGS = {"judge", "train/noise/seed0", "train/clustering/seed0"}
REPORT = {"tables", "figures", "training_figures", "page"}
JOB = re.compile(r"^\[\d+/\d+\] (\S+): ")
VARYING = {"wall_seconds", "peak_memory_mb", "files", "record_sha256"}


def attacks(defence: str) -> set[str]:
    return {f"attack/{defence}/seed0/{name}" for name in ("decoder", "closed_form")}


def start(folder: Path, slots: int = 1) -> "subprocess.Popen[str]":
    """The runner as a user starts it; each slot imports torch."""
    paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    return subprocess.Popen(
        [sys.executable, "-m", "cemlib", "run", "--config", "study.yaml", "--slots", f"{slots}"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path) -> tuple[int, set[str], str]:
    """Exit code, the jobs that were carried out, and what went to standard error."""
    process = start(folder)
    out, errors = process.communicate()
    return process.returncode, jobs(out.splitlines()), errors


def jobs(lines: list[str]) -> set[str]:
    return {found[1] for line in lines if (found := JOB.match(line))}


def configure(folder: Path, study: dict[str, Any]) -> None:
    (folder / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))


def scores(folder: Path) -> dict[str, Any]:
    """Content of every metrics file without how long it took."""
    results = folder / "results/short"
    return {
        str(path.relative_to(results)): {
            key: value for key, value in json.loads(path.read_text()).items() if key not in VARYING
        }
        for path in results.rglob("metrics.json")
    }


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the finished study, not to be changed."""
    folder = tmp_path_factory.mktemp("base")
    configure(folder, STUDY)
    everything = {"prepare"} | TRAININGS | attacks("noise") | attacks("clustering") | REPORT
    assert run(folder) == (0, everything, "")
    return folder


@pytest.fixture
def finished(base: Path, tmp_path: Path) -> Path:
    """A copy of it, with the times of its files."""
    return Path(shutil.copytree(base, tmp_path / "copy"))


def test_a_finished_study_runs_nothing(finished: Path) -> None:
    assert run(finished) == (0, set(), "")


def test_what_changed_runs_again_and_a_failure_stops_nothing_else(finished: Path) -> None:
    """One call for all: damaged data (prepared again, to the same), a lost linear attack (and not
    the mean image of the same job), a changed defence, and one that cannot be built."""
    results = finished / "results/short"
    (results / "data/prepared.safetensors").write_bytes(b"damaged")
    folder = results / "runs/noise/seed0/attacks"
    (folder / "linear-train_data/metrics.json").unlink()
    kept = (folder / "mean_image-train_data/metrics.json").stat().st_mtime_ns
    stronger = {"surrogate": {"name": "clustering", "lambda": 1}}
    odd = {"surrogate": {"name": "slot", "heads": 3}}
    configure(finished, STUDY | {"defences": {"noise": {}, "clustering": stronger, "odd": odd}})
    code, carried_out, errors = run(finished)
    assert code == 1
    again = {"prepare", "train/clustering/seed0", "attack/noise/seed0/closed_form"}
    assert carried_out == again | attacks("clustering")
    assert (folder / "mean_image-train_data/metrics.json").stat().st_mtime_ns == kept
    failed, left_out, advice = errors.splitlines()
    assert failed.startswith("error: failed: train/odd/seed0; ")
    named = set(left_out.partition("failed: ")[2].split(", "))
    assert named == attacks("odd") | REPORT
    assert "run the same command again" in advice
    log = (results / "logs/train/odd/seed0.log").read_text()
    assert log.startswith("error: defences.odd.surrogate: heads is 3")


def test_each_line_says_what_runs_and_how_long_the_rest_takes(tmp_path: Path) -> None:
    """By the mean of ended jobs of the same kind, or of all where none of a kind has ended."""
    plan = Plan(parse(STUDY | {"results": str(tmp_path)}))
    schedule = Schedule(split_jobs(plan))
    for seconds, line in ((30.0, "[1/12] prepare: 30.0 s"), (60.0, "[2/12] judge: 60.0 s")):
        job = schedule.take()
        assert job is not None
        assert schedule.outlook(2) == "" or job.name == "judge"
        assert schedule.end(Ended(job, seconds, Outcome())) == line
    schedule.take()
    # two trainings, four attacks and four reports, at the mean of 45 s, in two slots
    assert schedule.outlook(2) == " | running: train/noise/seed0 | about 4 min left"


@pytest.mark.parametrize(
    ("touched", "again"),
    [
        ("config.json", REPORT),
        ("runs/noise/seed0/metrics.json", REPORT | attacks("noise")),
        ("judge/model.safetensors", attacks("noise") | attacks("clustering")),
        (
            "runs/noise/seed0/attacks/decoder-public_data/metrics.json",
            {"tables", "figures", "page"},
        ),
    ],
)
def test_what_is_older_than_what_it_read_runs_again(
    finished: Path, touched: str, again: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished)
    os.utime(finished / "results/short" / touched)
    found = split_jobs(Plan(load(Path("study.yaml"))))
    assert {job.name for job in found if not is_finished(job)} == again


def test_results_whose_figures_are_not_drawn_yet_belong_to_the_study(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished)
    (finished / "results/short/figures/training_curves.png").unlink()
    names = {path.name for path in belonging(split_jobs(Plan(load(Path("study.yaml")))))}
    assert {"metrics.json", "summary.csv", "overview.png"} <= names
    assert names.isdisjoint({"training_curves.png", "training_curves.pdf"})


def test_a_killed_study_goes_on_to_the_same_numbers(base: Path, tmp_path: Path) -> None:
    """Once killed outright, once interrupted; the third call finishes what is left."""
    configure(tmp_path, STUDY | {"defences": {"noise": {}}})
    killed = start(tmp_path, slots=2)
    first = until("judge", killed.stdout)
    killed.kill()
    killed.communicate()
    interrupted = start(tmp_path)
    second = until("", interrupted.stdout)  # early: much is still to be done
    interrupted.send_signal(signal.SIGINT)
    rest, errors = interrupted.communicate()
    assert interrupted.returncode == 130
    assert errors == "interrupted: run the same command again to go on\n"
    code, third, _ = run(tmp_path)
    assert code == 0
    assert not third & (jobs(first) | jobs(second) | jobs(rest.splitlines()))
    unkilled = scores(base).items()
    assert scores(tmp_path) == {name: found for name, found in unkilled if "clust" not in name}


def until(name: str, out: IO[str] | None) -> list[str]:
    """Lines up to the first of a finished job whose name begins so."""
    assert out is not None
    lines = []
    for line in out:
        lines.append(line)
        if any(job.startswith(name) for job in jobs([line])):
            return lines
    raise AssertionError("".join(lines))


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """One slot; the variables it sets are gone after its tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (*OF_JOBS, "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            patch.setenv(name, "")
            patch.delenv(name)
        with Workers(1, threads=3) as workers:
            yield workers


def carry_out(workers: Workers, call: Call, log: Path) -> Outcome:
    workers.start(Job(PLAN, "job", {}, frozenset(), {}, (), None, (), call), log)
    (ended,) = workers.wait()
    return ended.outcome


def _tell_process(_: AnyJob) -> Iterator[str]:
    os.system("echo from below")
    yield json.dumps({"process": os.getpid(), "environment": dict(os.environ)})


def _die(_: AnyJob) -> Iterator[str]:
    yield "last words"
    os.kill(os.getpid(), signal.SIGKILL)


def _fail(_: AnyJob) -> Iterator[str]:
    yield "before"
    raise ZeroDivisionError("a bug")


def test_a_worker_has_the_environment_of_jobs_and_is_used_again(
    workers: Workers, tmp_path: Path
) -> None:
    first, second = (carry_out(workers, _tell_process, tmp_path / f"{i}/log") for i in range(2))
    told = json.loads(first.notes[0])
    assert OF_JOBS.items() <= told["environment"].items()
    assert told["environment"]["OMP_NUM_THREADS"] == "3"
    assert json.loads(second.notes[0])["process"] == told["process"] != os.getpid()
    assert (tmp_path / "0/log").read_text() == f"from below\n{first.notes[0]}\n"


def test_a_worker_that_dies_is_replaced(workers: Workers, tmp_path: Path) -> None:
    died = carry_out(workers, _die, tmp_path / "died.log")
    assert died.error is not None
    assert "its process died" in died.error
    assert (tmp_path / "died.log").read_text() == "last words\n"
    assert carry_out(workers, _tell_process, tmp_path / "next.log").error is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_below_the_log_is_told(workers: Workers, tmp_path: Path) -> None:
    outcome = carry_out(workers, _tell_process, Path("/dev/full"))
    assert outcome.error is not None
    assert outcome.error.startswith("/dev/full: cannot be written: No space left")
    assert carry_out(workers, _tell_process, tmp_path / "next.log").error is None


def test_a_bug_is_told_in_full_in_the_log(workers: Workers, tmp_path: Path) -> None:
    outcome = carry_out(workers, _fail, tmp_path / "log")
    assert outcome == Outcome(("before",), "ZeroDivisionError: a bug")
    assert "line" in (tmp_path / "log").read_text()


def test_changed_code_is_imported_anew(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = carry_out(workers, _tell_process, tmp_path / "log")
    monkeypatch.setattr(workers_module, "fingerprint", lambda _: "another")
    after = carry_out(workers, _tell_process, tmp_path / "log")
    assert json.loads(before.notes[0])["process"] != json.loads(after.notes[0])["process"]


BEATING = """
import sys
from functools import partial
from pathlib import Path
import test_study_runner as here
from cemlib.study.workers import Workers, Ended

if __name__ == "__main__":
    with Workers(1, 1) as workers:
        file = Path(sys.argv[1])
        here.carry_out(workers, partial(here.beat, file), file.with_suffix(".log"))
"""


def beat(file: Path, _: AnyJob) -> Iterator[str]:
    while True:
        with file.open("a") as handle:
            handle.write(".")
        time.sleep(0.01)
        yield "beat"


def test_workers_end_with_a_killed_runner(tmp_path: Path) -> None:
    """Otherwise they would write beside the workers of the next call."""
    (tmp_path / "beating.py").write_text(BEATING)
    file = tmp_path / "beats"
    paths = (str(ROOT), str(Path(__file__).parent), os.environ.get("PYTHONPATH", ""))
    parent = subprocess.Popen(
        [sys.executable, "beating.py", str(file)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    while not file.exists():
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    time.sleep(1.0)
    beats = file.stat().st_size
    time.sleep(0.5)
    assert file.stat().st_size == beats
