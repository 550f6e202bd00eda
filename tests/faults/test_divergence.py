"""Diverged runs and attacks: results without a number, told by lines, tables and exit codes."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import short_study
from short_study import configure

from cemlib.cli import main
from cemlib.config import load
from cemlib.records.files import read_json
from cemlib.records.layout import KNOWLEDGES
from cemlib.study.plan import Plan
from cemlib.study.split import jobs
from cemlib.study.status import failed_results

WILD = {"surrogate": {"name": "slot", "lambda": 1.0e15, "scale": 1.0e15}}
STUDY: dict[str, Any] = short_study.STUDY | {
    "seeds": [0, 1],
    "train": short_study.STUDY["train"] | {"epochs": 5, "milestones": [2]},
    "defences": {"noise": {}, "wild": WILD},
    "attacks": {"decoder": short_study.SMALL | {"lr": 1.0e30}, "linear": {}},
}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a study in which a defence and an attack diverge."""
    folder = tmp_path_factory.mktemp("wild")
    config = configure(folder, STUDY)
    assert [main([command, *config]) for command in ("prepare", "train", "attack")] == [0, 3, 3]
    return folder


def test_a_diverged_training_and_what_follows_it(
    attacked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are trained all the same: the judge, which is the last, too."""
    root = attacked / "results/short"
    assert read_json(root / "judge/metrics.json")["status"] == "ok"
    run = read_json(root / "runs/wild/seed1/metrics.json")
    assert (run["status"], run["top1"]) == ("failed", None)
    assert re.match(r"epoch \d, batch 1: gradient of the surrogate is not finite", run["reason"])
    code = main(["train", "--defence", "wild", "--seed", "1", *configure(attacked, STUDY)])
    lines = capsys.readouterr().out.splitlines()
    assert code == 3
    assert lines == [
        f"failed: wild/seed1: {run['reason']}",
        str(root / "runs/wild/seed1/metrics.json"),
    ]


def test_a_diverged_attack(attacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The other attack of the same command is carried out, and by itself it is no failure."""
    config = configure(attacked, STUDY)
    one = ["attack", "--defence", "noise", "--seed", "0"]
    assert main([*one, *config]) == 3
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if line.startswith("failed: ")]
    assert [line.partition(": epoch 1")[0] for line in told] == [
        f"failed: noise/seed0/decoder-{knowledge}" for knowledge in KNOWLEDGES
    ]
    assert len(lines) == 6
    assert main([*one, "--attack", "linear", *config]) == 0


def test_no_seed_drops_silently_from_a_mean(attacked: Path) -> None:
    """Where one attack on a seed failed, nobody knows its worst case."""
    assert main(["report", "--only", "tables", *configure(attacked, STUDY)]) == 0
    tables = attacked / "results/short/tables"
    summary = pd.read_csv(tables / "summary.csv").set_index(["defence", "attack"])
    assert (summary["n_seeds"] == 2).all()
    expected = {("noise", "decoder"): 2, ("noise", "linear"): 0, ("noise", "worst_case"): 2}
    expected |= {("wild", name): 2 for name in ("decoder", "linear", "worst_case")}
    for row, failed in expected.items():
        assert (summary.loc[row, "n_failed"] == failed).all(), row
        assert summary.loc[row, "mse_mean"].isna().all() == (failed == 2), row
    shown = [row for row in (tables / "summary.md").read_text().splitlines() if "| wild" in row]
    assert shown
    assert all("failed" in row for row in shown)


def test_the_failures_of_a_study_are_listed(attacked: Path) -> None:
    """An attack on a failed run is not: it says no more than the run."""
    plan = Plan(load(Path(configure(attacked, STUDY)[1])))
    told = [line.partition(": epoch ")[0] for line in failed_results(plan.layout.root, jobs(plan))]
    assert told == [
        f"failed: {name}"
        for k in (0, 1)
        for name in (f"wild/seed{k}", *(f"noise/seed{k}/decoder-{known}" for known in KNOWLEDGES))
    ]


@pytest.mark.slow
def test_a_study_where_all_diverge_ends_in_a_page(tmp_path: Path) -> None:
    wild = STUDY["train"] | {"lr": 1.0e30}
    study = STUDY | {"seeds": [0], "train": wild, "defences": {"bad": {"surrogate": "clustering"}}}
    config = configure(tmp_path, study)
    assert main(["run", *config]) == 3
    page = (tmp_path / "results/short/index.html").read_text()
    assert "bad, seed 0: epoch 1" in page
