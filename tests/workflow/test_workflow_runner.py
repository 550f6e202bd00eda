"""Whole studies by `cemlib run`: the files of the workflow, what runs again, what a kill leaves."""

import os
import subprocess
from pathlib import Path

import pytest
from checkout import Checkout, Outcome, tiny
from killing import carried_out, kill, start, wait_for_line
from result_files import bits

from cemlib.cli import main
from cemlib.config import load
from cemlib.study.finished import belonging
from cemlib.study.finished import finished as is_finished
from cemlib.study.plan import Plan
from cemlib.study.split import jobs as split_jobs

Base = tuple[Checkout, Outcome]
REPORT = {"tables", "figures", "training_figures", "page"}


def started(checkout: Checkout, slots: int = 1) -> "subprocess.Popen[str]":
    """The runner as a user starts it; each slot imports torch."""
    words = ("run", "--config", "study.yaml", "--slots", f"{slots}")
    return start(checkout, *words, stderr=subprocess.PIPE)


def run(checkout: Checkout, slots: int = 1) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    process = started(checkout, slots)
    out, errors = process.communicate()
    return process.returncode, out, errors


def attacks(defence: str) -> set[str]:
    return {f"attack/{defence}/seed0/{name}" for name in ("decoder", "closed_form")}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The tiny study by the runner, killed once, where Snakemake and MLflow cannot be imported."""
    checkout = Checkout.create(tmp_path_factory.mktemp("runner") / "checkout")
    checkout.configure(tiny())
    absent = [checkout.root / f"{name}.py" for name in ("snakemake", "mlflow")]
    for module in absent:
        module.write_text("raise ImportError('not on this machine')\n")
    killed = started(checkout, slots=2)
    before = carried_out("".join(wait_for_line(killed, "] judge: ")))
    kill(killed)
    code, out, errors = run(checkout, slots=2)
    assert (code, errors) == (3, "")  # all is done, and `wild` diverged
    assert not before & carried_out(out)
    assert out.splitlines()[-1].startswith("failed: wild/seed0: ")
    for module in absent:
        module.unlink()
    return checkout


@pytest.fixture
def copied(other: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A copy of it, in which the test works."""
    copy = other.copy(tmp_path / "copy")
    monkeypatch.chdir(copy.root)
    return copy


def files(checkout: Checkout) -> set[str]:
    found = checkout.listing(checkout.results)
    alone = ("benchmarks/", "tracked/", "logs/track.log")
    return {name for name in found if not name.startswith(alone)}


def test_it_leaves_the_files_of_the_workflow(base: Base, other: Checkout) -> None:
    """The logs included: a log of the same name for every job."""
    assert files(other) == files(base[0])


def test_they_say_the_same(base: Base, other: Checkout) -> None:
    """Weights, scores, histories, provenance, tables and figures, the diverged run's too."""
    ours, theirs = (bits(checkout.results) for checkout in (other, base[0]))
    assert {name for name in ours if ours[name] != theirs[name]} == set()


def test_its_logs_end_as_the_workflows(base: Base, other: Checkout) -> None:
    def lines(checkout: Checkout, name: str) -> list[str]:
        text = (checkout.results / f"logs/{name}.log").read_text()
        return [line for line in text.splitlines() if " epoch " not in line]

    for name in ("train/wild/seed0", "attack/clustering/seed0/closed_form", "tables"):
        assert lines(other, name) == lines(base[0], name) != []


def test_snakemake_runs_again_what_the_runner_made_with_other_settings(copied: Checkout) -> None:
    """It has no record of the runner's settings. Results that fit the study again are kept."""
    record = copied.results / "runs/clustering/seed0/metrics.json"
    before = record.stat().st_mtime_ns
    copied.configure(tiny(defences={"clustering": {"noise_std": 0.3}}))
    assert {"train", "attack", "tables"} <= copied.plan().rules
    assert record.stat().st_mtime_ns < before
    copied.configure(tiny())
    assert copied.plan().rules == {"track"}
    assert record.stat().st_mtime_ns == before


def test_snakemake_refuses_to_show_what_it_does_not_run_again(
    finished: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snakemake ran these jobs with today's settings, and after it the runner with others."""
    monkeypatch.chdir(finished.root)
    changed = ["--config", "study.yaml", "--set", "defences.clustering.noise_std=0.3"]
    for job in ("train/clustering", "attack/clustering"):
        assert main(["run", "--only", job, *changed]) == 0
    assert main(["report", "--only", "tables", *changed]) == 0
    tables = "results/tiny/tables/summary.csv"
    outcome = finished.snakemake(tables)
    assert outcome.code != 0
    assert outcome.rules == {"tables"}
    assert "made with defences.clustering.noise_std 0.3, now " in outcome.output
    assert not (finished.root / tables).exists()


def left() -> set[str]:
    """Names of the jobs that are not finished."""
    found = split_jobs(Plan(load(Path("study.yaml"))))
    return {job.name for job in found if not is_finished(job)}


@pytest.mark.parametrize(
    ("touched", "again"),
    [
        ("config.json", REPORT),
        ("runs/clustering/seed0/metrics.json", REPORT),  # attacks compare checksums
        ("judge/model.safetensors", set()),
        (
            "runs/clustering/seed0/attacks/decoder-public_data/metrics.json",
            REPORT - {"training_figures"},
        ),
    ],
)
def test_what_is_older_than_what_it_read_runs_again(
    copied: Checkout, touched: str, again: set[str]
) -> None:
    assert left() == set()
    os.utime(copied.results / touched)
    assert left() == again


@pytest.mark.usefixtures("copied")
def test_tables_made_with_other_settings_are_made_again() -> None:
    assert left() == set()
    assert main(["report", "--config", "study.yaml", "--set", "reference=null"]) == 0
    assert left() == REPORT


def test_results_whose_figures_are_not_drawn_yet_belong_to_the_study(copied: Checkout) -> None:
    (copied.results / "figures/training_curves.png").unlink()
    names = {path.name for path in belonging(split_jobs(Plan(load(Path("study.yaml")))))}
    assert {"metrics.json", "summary.csv", "overview.png"} <= names
    assert names.isdisjoint({"training_curves.png", "training_curves.pdf"})


def test_what_changed_runs_again_and_a_failure_stops_nothing_else(copied: Checkout) -> None:
    """One call for all: damaged data (prepared again, to the same), a lost linear attack (and not
    the mean image of the same job), a changed defence, and one that cannot be built."""
    (copied.results / "data/prepared.safetensors").write_bytes(b"damaged")
    folder = copied.results / "runs/clustering/seed0/attacks"
    (folder / "linear-train_data/metrics.json").unlink()
    kept = (folder / "mean_image-train_data/metrics.json").stat().st_mtime_ns
    odd = {"surrogate": {"name": "slot", "heads": 3}}
    copied.configure(tiny(defences={"wild": {"surrogate": {"lambda": 1.0e14}}, "odd": odd}))
    code, out, errors = run(copied)
    assert code == 1
    again = {"prepare", "train/wild/seed0", "attack/clustering/seed0/closed_form"}
    assert carried_out(out) == again | attacks("wild")
    assert (folder / "mean_image-train_data/metrics.json").stat().st_mtime_ns == kept
    failed, left_out, advice = errors.splitlines()
    assert failed.startswith("error: failed: train/odd/seed0; ")
    named = set(left_out.partition("failed: ")[2].split(", "))
    assert named == attacks("odd") | REPORT
    assert "run the same command again" in advice
    log = (copied.results / "logs/train/odd/seed0.log").read_text()
    assert log.startswith("error: defences.odd.surrogate: heads is 3")
