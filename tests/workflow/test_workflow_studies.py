"""Studies that extend other files, as Snakemake reads them."""

import shutil
from pathlib import Path

from checkout import Checkout

from cemlib.config import load
from cemlib.study.plan import Plan
from cemlib.study.split import jobs

ROOT = Path(__file__).parents[2]


def test_a_committed_study_is_planned_whole(fresh: Checkout) -> None:
    path = "config/studies/cuts/cut2_short.yaml"
    planned = Plan(load(ROOT / path))
    plan = fresh.plan(config=path)
    defences, seeds = planned.study.defences, planned.study.seeds
    assert plan.runs("train") == {(name, str(seed)) for name in defences for seed in seeds}
    assert plan.attacks() == set(planned.study.learned_attacks())
    assert len(plan.jobs) == len(jobs(planned)) + 1  # track


def test_what_is_published_of_every_system_can_be_made_again(fresh: Checkout) -> None:
    """Studies whose images are missing are left out."""
    shutil.copytree(ROOT / "results/published", fresh.root / "results/published")
    rules = fresh.plan("published").rules
    assert {"digits_compare", "pctc_digits_compare", "federated_mixing_compare"} <= rules


def test_settings_of_all_files_and_of_the_command_line_are_planned(fresh: Checkout) -> None:
    fresh.configure({"seeds": [4], "defences": {"wild": None}}, "short.yaml")
    (fresh.root / "sub").mkdir()
    short = {"extends": ["../study.yaml", "../short.yaml"], "experiment": "shorter"}
    fresh.configure(short, "sub/study.yaml")
    plan = fresh.plan("--config", "threads=2", config="sub/study.yaml")
    assert plan.runs("train") == {("clustering", "4")}
    assert {job.fields["threads"] for job in plan.of("train")} == {"2"}
    assert all("results/shorter/" in job.fields["output"] for job in plan.of("train"))
