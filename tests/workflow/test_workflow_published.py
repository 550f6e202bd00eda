"""What is published: made again by `snakemake published`, and joined by `cemlib publish --add`."""

import json
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from checkout import REPOSITORY, Checkout, tiny


def publish(checkout: Checkout, name: str, config: str) -> None:
    place = checkout.root / "results/published" / name
    place.mkdir(parents=True)
    command = f"snakemake --cores 2 --configfile {config}"
    (place / "provenance.json").write_text(json.dumps({"command": command}))


def test_tables_are_made_again_and_their_differences_told(finished: Checkout) -> None:
    """One is whole, one needs every job; of one the images are not there, of one the file.

    Beside them one published study of each system (`test_config_studies` reads them all).
    """
    others = ("digits", "pctc_digits", "federated_mixing")
    for name in others:
        place = f"results/published/{name}"
        shutil.copytree(REPOSITORY / place, finished.root / place)
    publish(finished, "tiny", "study.yaml")
    publish(finished, "more", "more.yaml")
    publish(finished, "away", "away.yaml")
    publish(finished, "gone", "gone.yaml")
    finished.configure({"extends": "study.yaml", "experiment": "more"}, "more.yaml")
    away = {"source": "folder", "root": "nowhere", "image_size": 16}
    finished.configure({**tiny(), "experiment": "away", "data": away}, "away.yaml")
    for name in ("runs", "summary"):
        table = pd.read_csv(finished.results / f"tables/{name}.csv")
        if name == "summary":
            table.loc[1, "mse_mean"] *= 2
        table.to_csv(finished.root / f"results/published/tiny/{name}.csv", index=False)
    plan = finished.plan("published")
    assert len(plan.runs("published_more_train")) == len(tiny()["defences"])
    compared = {rule for rule in plan.rules if rule.endswith("_compare")}
    assert compared == {f"published_{name}_compare" for name in ("tiny", "more", *others)}
    assert {rule for rule in plan.rules if "_tiny_" in rule} == {"published_tiny_compare"}
    assert "not published again: away: nowhere: no such folder" in plan.output
    assert "not published again: gone: gone.yaml: no such configuration file" in plan.output
    outcome = finished.snakemake("results/tiny/published.txt")
    assert outcome.code == 0, outcome.output
    assert outcome.rules == {"published_tiny_compare"}
    runs, summary = (finished.results / "published.txt").read_text().splitlines()
    assert runs == "runs.csv: equal"
    assert summary.startswith("summary.csv: mse_mean: 1 of ")
    assert f"  {summary}" in outcome.output


def git(checkout: Checkout, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, *arguments], cwd=checkout.root, check=True, capture_output=True)


def cemlib(checkout: Checkout, command: str, seeds: str, *options: str) -> str:
    return checkout.cemlib(command, "--config", "study.yaml", "--set", f"seeds={seeds}", *options)


@pytest.mark.slow
def test_seeds_of_two_machines_are_published_together(fresh: Checkout, tmp_path: Path) -> None:
    brief = {"train": {"epochs": 1, "batch_size": 64, "milestones": []}, "attacks": {"linear": {}}}
    two = {"defences": {"none": {"noise_std": 0.0}, "noise": {}}, "reference": "noise"}
    fresh.configure(tiny() | {"seeds": [0, 1]} | brief | two)
    for words in (["init"], ["add", "--all"], ["commit", "--quiet", "--message", "all"]):
        git(fresh, *words)
    other, place = fresh.copy(tmp_path / "other"), Path("results/published/tiny")
    cemlib(fresh, "run", "[0]")
    cemlib(fresh, "publish", "[0]")
    origin = json.loads((fresh.root / place / "provenance.json").read_text())
    assert origin["command"] == "cemlib run --config study.yaml --set 'seeds=[0]'"
    shutil.copytree(fresh.root / place, other.root / place)
    cemlib(other, "run", "[1]")
    cemlib(other, "publish", "[1]", "--add")
    origin = json.loads((other.root / place / "provenance.json").read_text())
    assert (origin["seeds"], origin["jobs"]) == ([0, 1], 2 * 2 * 3)
    assert origin["command"] == "snakemake --cores 2 --configfile study.yaml"
    cemlib(other, "run", "[0, 1]")
    told = cemlib(other, "publish", "[0, 1]", "--compare").splitlines()
    assert {"runs.csv: equal", "summary.csv: equal"} <= set(told)
