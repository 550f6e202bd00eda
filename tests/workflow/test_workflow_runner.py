"""The runner leaves what Snakemake leaves, without Snakemake and MLflow."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from checkout import Checkout, Outcome, tiny

Base = tuple[Checkout, Outcome]
VARYING = {"seconds", "wall_seconds", "peak_memory_mb", "files", "record_sha256"}
WORKFLOW_ALONE = ("benchmarks/", "tracked/", "logs/track.log")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The tiny study by the runner, where Snakemake and MLflow cannot be imported."""
    checkout = Checkout.create(tmp_path_factory.mktemp("runner") / "checkout")
    checkout.configure(tiny())
    absent = [checkout.root / f"{name}.py" for name in ("snakemake", "mlflow")]
    for module in absent:
        module.write_text("raise ImportError('not on this machine')\n")
    done = subprocess.run(
        [sys.executable, "-m", "cemlib", "run", "--config", "study.yaml", "--slots", "2"],
        cwd=checkout.root,
        env=checkout.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, "")  # all is done, and `wild` diverged
    assert done.stdout.splitlines()[-1].startswith("failed: wild seed0: ")
    for module in absent:
        module.unlink()
    return checkout


def files(checkout: Checkout) -> set[str]:
    found = checkout.listing(checkout.results)
    return {name for name in found if not name.startswith(WORKFLOW_ALONE)}


def content(path: Path) -> Any:
    """The file's bytes, or what of its JSON or table does not tell how long something took."""
    if path.name == "runs.csv":
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        return table.filter(regex="^(?!.*(seconds|memory))").to_dict()
    if path.suffix not in (".json", ".jsonl"):
        return path.read_bytes()
    lines = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in VARYING} for line in lines]


def test_it_leaves_the_files_of_the_workflow(base: Base, other: Checkout) -> None:
    """The logs included: a log of the same name for every job."""
    assert files(other) == files(base[0])


def test_they_say_the_same(base: Base, other: Checkout) -> None:
    """Weights, scores, histories, provenance, tables and figures, the diverged run's too."""
    telling_times = ("logs/", "index.html")  # the page says how long each job took
    names = {name for name in files(other) if not name.startswith(telling_times)}
    differing = {
        name for name in names if content(other.results / name) != content(base[0].results / name)
    }
    assert differing == set()


def test_its_logs_end_as_the_workflows(base: Base, other: Checkout) -> None:
    for name in ("train/wild/seed0", "attack/clustering/seed0/closed_form", "tables"):
        ours, theirs = (c.results / f"logs/{name}.log" for c in (other, base[0]))
        written = [line for line in ours.read_text().splitlines() if " epoch " not in line]
        assert written
        assert written == [
            line for line in theirs.read_text().splitlines() if " epoch " not in line
        ]


def test_snakemake_has_nothing_left_but_the_upload(other: Checkout) -> None:
    assert other.plan().rules == {"track"}
