"""Tiny studies of the other systems through real Snakemake, from images to tables and figures."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from checkout import REPOSITORY, Checkout


def carried_out(root: Path, system: str, changes: dict[str, Any], jobs: list[str]) -> Checkout:
    """A checkout after every job of a study but the upload."""
    checkout = Checkout.create(root)
    checkout.results = root / f"results/tiny_{system}"
    study = yaml.safe_load((REPOSITORY / f"tests/configs/tiny_{system}.yaml").read_text())
    checkout.configure(study | changes)
    outcome = checkout.snakemake(f"{system}_report")
    assert outcome.code == 0, outcome.output
    rules = [f"{system}_{job.partition('/')[0]}" for job in jobs]
    assert sorted(job.rule for job in outcome.jobs) == sorted(rules)
    for job in jobs:
        assert (checkout.results / f"logs/{job}.log").is_file()
        assert (checkout.results / f"benchmarks/{job}.tsv").is_file()
    return checkout


def test_a_labelling_study_ends_in_tables(tmp_path: Path) -> None:
    jobs = ["prepare", "repeat/0", "cost", "report"]
    done = carried_out(tmp_path / "checkout", "pctc", {"repeats": 1}, jobs)
    table = pd.read_csv(done.results / "tables/accuracy.csv")
    assert table["images"].tolist() == [20, 30]
    assert table["iel_top1_mean"].between(0, 1).all()
    assert (done.results / "runs/images30/seed0/per_image.parquet").is_file()


@pytest.mark.slow  # by the same rules; `federated/test_federated_jobs.py` has a whole study
def test_a_federated_study_ends_in_tables_and_figures(tmp_path: Path) -> None:
    variants = {"mixed": {"mixing": {"beta": [2, 1]}}}
    jobs = ["prepare", "gans/seed0", "train/mixed/seed0", "attack/mixed/seed0", "report"]
    changes = {"variants": variants, "reference": "mixed"}
    done = carried_out(tmp_path / "checkout", "federated", changes, jobs)
    (row,) = pd.read_csv(done.results / "tables/tradeoff.csv").to_dict("records")
    assert row["variant"] == "mixed"
    assert 0 <= row["top1_mean"] <= 1
    assert row["mse_mean"] > 0
    assert (done.results / "figures/pseudo.png").stat().st_size > 0
