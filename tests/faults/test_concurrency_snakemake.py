"""Snakemake beside Snakemake: one at a time on one study, any number on different results."""

import subprocess
from pathlib import Path

import pytest
from checkout import Checkout
from killing import bits, small_study, start, wait_for_line
from mlflow.tracking import MlflowClient
from test_concurrency import SHORT

pytestmark = pytest.mark.slow


def snakemake(place: Checkout, study: str, cores: int) -> "subprocess.Popen[str]":
    words = ("--cores", str(cores), "--configfile", study)
    return start(place, *words, module="snakemake")


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    out, _ = process.communicate(timeout=600)
    return process.returncode, out


@pytest.fixture(scope="module")
def one_core(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The study by one Snakemake, a job at a time; not to be changed."""
    place = small_study(tmp_path_factory.mktemp("snakemakes") / "base", SHORT, interval=20.0)
    code, said = ended(snakemake(place, "study.yaml", 1))
    assert code == 0, said
    return place


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    return small_study(tmp_path / "fresh", SHORT, interval=20.0)


def test_more_cores_than_there_are_give_the_same_bits(one_core: Checkout, fresh: Checkout) -> None:
    code, said = ended(snakemake(fresh, "study.yaml", 8))
    assert code == 0, said
    assert bits(fresh.results) == bits(one_core.results)


def test_a_second_snakemake_is_told_of_the_first_and_harms_nothing(
    one_core: Checkout, fresh: Checkout
) -> None:
    first = snakemake(fresh, "study.yaml", 1)
    wait_for_line(first, "rule prepare")
    code, said = ended(snakemake(fresh, "study.yaml", 1))
    assert code == 1
    assert "Directory cannot be locked" in said
    assert "Traceback" not in said
    assert first.poll() is None, "it had ended before the second could meet it"
    assert ended(first)[0] == 0
    assert bits(fresh.results) == bits(one_core.results)


def test_two_users_with_results_of_their_own_share_a_checkout_and_a_store(
    one_core: Checkout, fresh: Checkout
) -> None:
    users = ("ada", "ben")
    for user in users:
        fresh.configure(SHORT | {"results": user, "experiment": f"of_{user}"}, f"{user}.yaml")
    for process in [snakemake(fresh, f"{user}.yaml", 1) for user in users]:
        code, said = ended(process)
        assert code == 0, said
    for user in users:
        found, expected = bits(fresh.root / user / f"of_{user}"), bits(one_core.results)
        learned = [name for name in expected if name.endswith(".safetensors")]
        assert len(learned) > 5
        assert {name: found[name] for name in learned} == {n: expected[n] for n in learned}
    runs = 2 * (1 + 3 * 2) + 1  # two classifiers with three attacks of two knowledges; the report
    assert tracked(fresh) == {"of_ada": runs, "of_ben": runs}


def tracked(place: Checkout) -> dict[str, int]:
    """Runs of each experiment in the checkout's store."""
    client = MlflowClient(f"sqlite:///{place.root}/mlflow.db")
    found = {e.name: e.experiment_id for e in client.search_experiments() if e.name != "Default"}
    return {name: len(client.search_runs([number])) for name, number in found.items()}
