"""A tiny federated study through real Snakemake, from images to tables and figures."""

from pathlib import Path

import pandas as pd
import pytest
import yaml
from checkout import REPOSITORY, Checkout

TINY = REPOSITORY / "tests/configs/tiny_federated.yaml"
TARGET = "federated_report"
JOBS = {"federated_attack", "federated_train", TARGET}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """After every job but the upload; not to be changed."""
    checkout = Checkout.create(tmp_path_factory.mktemp("federated") / "checkout")
    checkout.results = checkout.root / "results/tiny_federated"
    study = yaml.safe_load(TINY.read_text(encoding="utf-8"))
    study["variants"].pop("dp_sgd")
    checkout.configure(study)
    outcome = checkout.snakemake(TARGET)
    assert outcome.code == 0, outcome.output
    rules = sorted(job.rule for job in outcome.jobs)
    pairs = ["federated_attack"] * 2, ["federated_train"] * 2
    assert rules == sorted([*pairs[0], *pairs[1], "federated_prepare", "federated_pseudo", TARGET])
    return checkout


def test_it_ends_in_tables_and_figures(done: Checkout) -> None:
    table = pd.read_csv(done.results / "tables/tradeoff.csv")
    assert table["variant"].tolist() == ["none", "both"]
    assert table["top1_mean"].between(0, 1).all()
    assert (table["mse_mean"] > 0).all()
    assert (done.results / "figures/pseudo.png").stat().st_size > 0
    for job in ("prepare", "pseudo/seed0", "train/both/seed0", "attack/both/seed0", "report"):
        assert (done.results / f"logs/{job}.log").is_file()
        assert (done.results / f"benchmarks/{job}.tsv").is_file()


def test_only_the_upload_is_left(done: Checkout) -> None:
    assert done.plan().rules == {"federated_track"}


def test_an_edit_reruns_what_it_decides(done: Checkout, tmp_path: Path) -> None:
    """The GANs decide nothing where no image is mixed, and an attack decides no training."""
    checkout = done.copy(tmp_path / "checkout")
    study = yaml.safe_load((checkout.root / "study.yaml").read_text())
    study["gan"]["epochs"] = 3
    checkout.configure(study)
    found = checkout.plan(TARGET)
    assert found.rules == {*JOBS, "federated_pseudo"}
    assert {job.wildcards["variant"] for job in found.of("federated_train")} == {"both"}
    study["gan"]["epochs"] = 2
    checkout.configure(study)
    checkout.append("cemlib/federated/inversion/gradients.py")
    assert checkout.plan(TARGET).rules == {"federated_attack", TARGET}


def test_it_stands_beside_the_split_study(done: Checkout) -> None:
    """The embedded study runs by its name, and never without."""
    alone = done.plan(config=None)
    assert not any(rule.startswith("federated") for rule in alone.rules)
    named = done.plan("federated", config=None)
    assert {rule.split("_")[0] for rule in named.rules} == {"federated"}
