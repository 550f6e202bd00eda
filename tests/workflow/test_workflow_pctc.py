"""A tiny labelling study through real Snakemake, from images to tables and figures."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from checkout import REPOSITORY, Checkout

TINY = REPOSITORY / "tests/configs/tiny_pctc.yaml"
LEFT = {"pctc_report", "pctc_track"}


def checkout_in(folder: Path) -> Checkout:
    checkout = Checkout.create(folder / "checkout")
    checkout.results = checkout.root / "results/tiny_pctc"
    checkout.configure(yaml.safe_load(TINY.read_text(encoding="utf-8")) | {"repeats": 1})
    return checkout


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """After every job but the upload; not to be changed."""
    checkout = checkout_in(tmp_path_factory.mktemp("pctc"))
    outcome = checkout.snakemake("pctc_report")
    assert outcome.code == 0, outcome.output
    rules = ["pctc_cost", "pctc_prepare", "pctc_repeat", "pctc_report"]
    assert sorted(job.rule for job in outcome.jobs) == rules
    return checkout


def test_it_ends_in_tables(done: Checkout) -> None:
    table = pd.read_csv(done.results / "tables/accuracy.csv")
    assert table["images"].tolist() == [20, 30]
    assert table["iel_top1_mean"].between(0, 1).all()
    assert (done.results / "runs/images30/seed0/per_image.parquet").is_file()
    for job in ("prepare", "repeat/0", "cost", "report"):
        assert (done.results / f"logs/{job}.log").is_file()
        assert (done.results / f"benchmarks/{job}.tsv").is_file()


def test_an_edit_reruns_what_it_decides(done: Checkout, tmp_path: Path) -> None:
    """The timing's images decide no accuracy; the noise decides no timing."""
    checkout = done.copy(tmp_path / "checkout")
    study = yaml.safe_load((checkout.root / "study.yaml").read_text())
    study["cost"]["images"] = 3
    checkout.configure(study)
    assert checkout.plan().rules == {"pctc_cost"} | LEFT
    study["cost"]["images"] = 2
    checkout.configure(study)
    checkout.append("cemlib/labelling/accounting.py")
    assert checkout.plan().rules == {"pctc_repeat"} | LEFT


def test_it_stands_beside_the_split_study(done: Checkout) -> None:
    """The embedded study runs by its name; without, test_workflow_run has every job there is."""
    named = done.plan("pctc", config=None)
    assert len(named.of("pctc_repeat")) == 10
    assert {rule.split("_")[0] for rule in named.rules} == {"pctc"}


def test_a_study_of_no_known_system_is_refused(done: Checkout, tmp_path: Path) -> None:
    shutil.copy(done.root / "study.yaml", tmp_path / "other.yaml")
    text = (tmp_path / "other.yaml").read_text().replace("system: pctc", "system: pctk")
    (tmp_path / "other.yaml").write_text(text)
    outcome = done.snakemake("--dry-run", config=str(tmp_path / "other.yaml"))
    assert outcome.code != 0
    assert "system: 'pctk' is not one of split, pctc" in outcome.output
