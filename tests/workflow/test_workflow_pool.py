"""`cemlib publish --add`: a study whose seeds two machines computed, from beginning to end."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from checkout import Checkout, tiny

TWO = {"none": {"noise_std": 0.0}, "noise": {}}
BRIEF = {"epochs": 1, "batch_size": 64, "milestones": []}


def git(checkout: Checkout, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, *arguments], cwd=checkout.root, check=True, capture_output=True)


def cemlib(checkout: Checkout, command: str, seeds: str, *options: str) -> str:
    arguments = [command, "--config", "study.yaml", "--set", f"seeds={seeds}", *options]
    return checkout.cemlib(*arguments)


@pytest.mark.slow
def test_seeds_of_two_machines_are_published_together(fresh: Checkout, tmp_path: Path) -> None:
    brief = {"train": BRIEF, "attacks": {"linear": {}}, "reference": "noise"}
    fresh.configure({**tiny(), "seeds": [0, 1], "defences": TWO, **brief})
    git(fresh, "init", "--quiet")
    git(fresh, "add", "--all")
    git(fresh, "commit", "--quiet", "--message", "all")
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
