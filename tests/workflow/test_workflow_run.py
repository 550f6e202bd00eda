"""A tiny study through real Snakemake, from images to tables, figures and MLflow."""

import re

import pandas as pd
import pytest
from checkout import Checkout, Outcome

Base = tuple[Checkout, Outcome]
DEFENCES = ("clustering", "wild")
ATTACKS = ("decoder", "linear", "linear_4", "mean_image")
QUERIES = {"linear_4": 4}
KNOWLEDGES = ("train_data", "public_data")
RUN = {"config.json", "model.safetensors", "history.jsonl", "metrics.json"}
ATTACK = {
    "attacker.safetensors",
    "history.jsonl",
    "metrics.json",
    "per_image.parquet",
    "reconstructions.png",
    "extremes.png",
}
TABLES = {f"summary.{kind}" for kind in ("csv", "md", "tex", "html")} | {
    "runs.csv",
    "comparisons.csv",
    "comparisons.html",
    "claims.md",
}
RULES = {
    "prepare": 1,
    "judge": 1,
    "train": 2,
    "attack": 2,
    "attack_closed_form": 2,
    "tables": 1,
    "figures": 1,
    "training_figures": 1,
    "page": 1,
    "track": 1,
}


def test_runs_every_job_once(base: Base) -> None:
    rules = [job.rule for job in base[1].jobs]
    assert {rule: rules.count(rule) for rule in set(rules)} == RULES


def test_every_job_has_a_log_and_a_benchmark(base: Base) -> None:
    checkout, outcome = base
    for job in outcome.jobs:
        assert (checkout.root / job.fields["log"]).is_file()
        measured = pd.read_csv(checkout.root / job.fields["benchmark"], sep="\t")
        assert measured["s"].item() > 0


@pytest.mark.parametrize("defence", DEFENCES)
def test_a_run_leaves_the_files_of_the_contract(base: Base, defence: str) -> None:
    checkout, _ = base
    run = checkout.results / "runs" / defence / "seed0"
    kinds = [f"{attack}-{knowledge}" for attack in ATTACKS for knowledge in KNOWLEDGES]
    attacks = {f"attacks/{kind}/{name}" for kind in kinds for name in ATTACK}
    assert checkout.listing(run) == RUN | attacks


def test_prepared_data_and_report_are_complete(base: Base) -> None:
    checkout, _ = base
    assert checkout.listing(checkout.results / "data") == {"prepared.safetensors", "data.json"}
    assert checkout.listing(checkout.results / "tables") == TABLES


def test_a_diverging_defence_fails_alone(base: Base) -> None:
    """Its jobs end, so that the study is complete; its tables say so and show no number."""
    checkout, outcome = base
    run = checkout.metrics("runs/wild/seed0")
    attack = checkout.metrics("runs/wild/seed0/attacks/decoder-train_data")
    assert outcome.code == 0
    assert (run["status"], run["top1"]) == ("failed", None)
    assert "epoch 4" in run["reason"]
    assert (attack["status"], attack["mse"]) == ("failed", None)
    assert run["reason"] in attack["reason"]
    log = (checkout.results / "logs/train/wild/seed0.log").read_text()
    assert f"failed: wild/seed0: {run['reason']}" in log
    assert f"failed: wild/seed0: {run['reason']}" in outcome.output.splitlines()[-5:]


def test_summary_repeats_the_metrics_of_the_jobs(base: Base) -> None:
    """One seed: the mean is the number that the job measured; the worst case is their least MSE."""
    checkout, _ = base
    summary = pd.read_csv(checkout.results / "tables/summary.csv")
    table = summary.set_index(["defence", "attack", "knowledge"])["mse_mean"]
    folder = "runs/clustering/seed0/attacks"
    measured = [checkout.metrics(f"{folder}/{attack}-train_data")["mse"] for attack in ATTACKS]
    assert table["clustering"][:, "train_data"][[*ATTACKS]].tolist() == pytest.approx(measured)
    once = [mse for a, mse in zip(ATTACKS, measured, strict=True) if a not in QUERIES]
    assert table["clustering", "worst_case", "train_data"] == pytest.approx(min(once))
    assert table["clustering", "worst_case_4", "train_data"] == pytest.approx(min(measured))


def test_a_job_is_a_line_and_the_last_ones_say_where_to_look(finished: Checkout) -> None:
    """And a dry run names it."""
    page = finished.results / "index.html"
    page.unlink()
    dry = finished.snakemake("results/tiny/index.html", "--dry-run", brief=True).output
    assert re.search(r"^Job \d+: page$", dry, re.MULTILINE)
    assert re.search(r"^page +1$", dry, re.MULTILINE)
    said = finished.snakemake("results/tiny/index.html", brief=True).output
    assert re.search(r"^\[1/1\] page \| about \d+ min left$", said, re.MULTILINE)
    assert "Select jobs" not in said
    assert "input: " not in said
    assert "python -m cemlib" not in said
    assert f"\n{page}\n" in said
    assert f"{finished.results / 'tables'}\n" not in said  # which are as they were
