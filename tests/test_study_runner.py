"""What the runner says of its progress, and the processes in which its jobs run."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import TINY, tiny
from deadlines import watchdog

from cemlib.config import parse
from cemlib.config.load import load_any
from cemlib.study import workers as workers_module
from cemlib.study.environment import OF_JOBS
from cemlib.study.job import AnyJob, Call, Job
from cemlib.study.plan import Plan
from cemlib.study.schedule import Schedule
from cemlib.study.split import jobs as split_jobs
from cemlib.study.workers import Outcome, Workers

PLAN = Plan(parse(tiny()))


def test_each_line_says_what_runs_and_how_long_the_rest_takes(tmp_path: Path) -> None:
    """By the mean of ended jobs of a kind, or of all kinds; unknown until one like these ended."""
    plan = Plan(parse(tiny() | {"results": str(tmp_path)}))
    schedule = Schedule(split_jobs(plan))
    ended = {"prepare": 30.0, "judge": 60.0, "train/clustering/seed0": 60.0}
    for done, (name, seconds) in enumerate(ended.items(), 1):
        job = schedule.take()
        assert schedule.outlook(2) == (f" | running: {name}" if done > 1 else "")
        line = schedule.end(job, seconds, Outcome())
        assert line == f"[{done}/12] {name}: {seconds:.1f} s"
    schedule.take()
    # 60 s for the training, and the mean of 50 s for four attacks and four reports, in two slots
    assert schedule.outlook(2) == " | running: train/wild/seed0 | about 4 min left"


def test_a_failed_job_is_named_with_the_folder_of_its_log(tmp_path: Path) -> None:
    plan = Plan(parse(tiny() | {"results": str(tmp_path)}))
    schedule = Schedule(split_jobs(plan))
    job = schedule.take()
    schedule.end(job, 1.0, Outcome(error="RuntimeError: boom"))
    first = schedule.fault().splitlines()[0]
    assert first == f"failed: prepare; the log of each is under {plan.layout.root / 'logs'}"


def test_an_attack_that_begins_with_another_depends_on_it() -> None:
    found = {job.name: job for job in split_jobs(Plan(load_any(TINY)))}
    refinement, decoder = (found[f"attack/gated/seed1/{n}"] for n in ("refinement", "decoder"))
    assert decoder.name in refinement.needs
    read = [*refinement.inputs["start_train_data"], *refinement.inputs["start_public_data"]]
    assert set(decoder.records) < set(read)
    assert refinement.settings["start"] == decoder.settings["attack"]


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
    workers.start(Job(PLAN, "job", (), None, (), call), log)
    ((_, _, outcome),) = workers.wait()
    return outcome


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
    assert "its process died" in died.error
    assert (tmp_path / "died.log").read_text() == "last words\n"
    assert carry_out(workers, _tell_process, tmp_path / "next.log").error is None


def test_a_worker_that_dies_between_two_jobs_is_replaced(workers: Workers, tmp_path: Path) -> None:
    process = json.loads(carry_out(workers, _tell_process, tmp_path / "log").notes[0])["process"]
    os.kill(process, signal.SIGKILL)
    workers.idle[0]._pool._executor_manager_thread.join(30)  # until the pool has noticed
    assert carry_out(workers, _tell_process, tmp_path / "next.log").error is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_below_the_log_is_told(workers: Workers, tmp_path: Path) -> None:
    outcome = carry_out(workers, _tell_process, Path("/dev/full"))
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
from cemlib.study.workers import Workers

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
    parent = subprocess.Popen(
        [sys.executable, "beating.py", str(file)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    while not file.exists():
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    with watchdog():
        while grows(file):
            pass


def grows(file: Path) -> bool:
    before = file.stat().st_size
    time.sleep(0.5)  # fifty beats
    return file.stat().st_size > before
