"""Several processes: only one may work on the same results, and beside others no bit changes."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from checkout import Checkout
from killing import STUDY, python, small_study, start, wait_for_line
from result_files import bits
from short_study import configure

from cemlib.cli import main
from cemlib.records.files import FileError
from cemlib.records.lock import locked
from cemlib.study.schedule import RUNNING

SHORT: dict[str, Any] = STUDY | {
    "train": {"epochs": 5, "batch_size": 32, "milestones": [4]},
    "defences": {"clustering": {"surrogate": "clustering"}, "noise": {}},
    "attacks": {"decoder": {"epochs": 3, "blocks": 1, "width": 8}, "linear": {}, "mean_image": {}},
}
HOLDER = """
import sys, time
from pathlib import Path
from cemlib.records.lock import locked
with locked(Path(sys.argv[1]), 'is here'):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_is_refused_to_others_and_goes_with_its_holder(tmp_path: Path) -> None:
    place = tmp_path / "locks/study"
    holder = python("-c", HOLDER, str(place))
    wait_for_line(holder, "held")
    message = f"locks/study: process {holder.pid} on .* is running this study"
    with pytest.raises(FileError, match=message), locked(place, RUNNING):
        pass
    holder.kill()
    holder.communicate()
    with locked(place, RUNNING):
        assert place.read_text().startswith(f"process {os.getpid()} on ")


def test_a_second_runner_is_refused_before_it_touches_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configure(tmp_path, SHORT)
    with locked(tmp_path / "results/.locks/tiny", RUNNING):
        assert main(["run", *config]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert f"process {os.getpid()} on " in errors[0]
    assert not (tmp_path / "results/tiny").exists()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The study by one runner and one job at a time, not to be changed."""
    place = small_study(tmp_path_factory.mktemp("concurrency") / "base", SHORT, interval=20.0)
    place.cemlib("run", "--config", "study.yaml")
    return place


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    return small_study(tmp_path / "fresh", SHORT, interval=20.0)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    out, _ = process.communicate(timeout=600)
    return process.returncode, out


def snakemake(place: Checkout, study: str, cores: int) -> "subprocess.Popen[str]":
    words = ("--cores", str(cores), "--configfile", study, "--quiet", "host")
    return start(place, *words, module="snakemake")


@pytest.mark.slow
def test_a_second_snakemake_is_told_of_the_first_and_harms_nothing(
    base: Checkout, fresh: Checkout
) -> None:
    """The first may run more jobs than there are cores, which changes no bit either."""
    first = snakemake(fresh, "study.yaml", 8)
    wait_for_line(first, "rule prepare")
    code, said = ended(snakemake(fresh, "study.yaml", 1))
    assert code == 1
    assert "Directory cannot be locked" in said
    assert "Traceback" not in said
    assert first.poll() is None, "it had ended before the second could meet it"
    assert ended(first)[0] == 0
    assert bits(fresh.results) == bits(base.results)


@pytest.mark.slow
def test_two_users_with_results_of_their_own_share_a_checkout_and_a_store(
    base: Checkout, fresh: Checkout
) -> None:
    users = ("ada", "ben")
    for user in users:
        fresh.configure(SHORT | {"results": user, "experiment": f"of_{user}"}, f"{user}.yaml")
    for process in [snakemake(fresh, f"{user}.yaml", 1) for user in users]:
        code, said = ended(process)
        assert code == 0, said
    for user in users:
        found, expected = bits(fresh.root / user / f"of_{user}"), bits(base.results)
        learned = [name for name in expected if name.endswith(".safetensors")]
        assert len(learned) > 5
        assert {name: found[name] for name in learned} == {n: expected[n] for n in learned}
    runs = 2 * (1 + 3 * 2) + 1  # two classifiers with three attacks of two knowledges; the report
    assert tracked(fresh) == {"of_ada": runs, "of_ben": runs}


def tracked(place: Checkout) -> dict[str, int]:
    """Runs of each experiment in the checkout's store."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{place.root}/mlflow.db")
    found = {e.name: e.experiment_id for e in client.search_experiments() if e.name != "Default"}
    return {name: len(client.search_runs([number])) for name, number in found.items()}
