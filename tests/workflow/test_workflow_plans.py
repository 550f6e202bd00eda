"""Which jobs are planned: of a study as Snakemake reads it, and what a change concerns."""

import os
from typing import Any

import pytest
from checkout import REPOSITORY, Checkout, tiny

from cemlib.config import load
from cemlib.study.plan import Plan
from cemlib.study.split import jobs

ALL = {(defence, "0") for defence in ("clustering", "wild")}
CLUSTERED = {("clustering", "0")}
JOBS = ("train", "attack", "attack_closed_form")
DRAWN = {"tables", "figures", "training_figures", "page"}
Runs = set[tuple[str | None, str | None]]


def test_an_edited_source_reruns_what_depends_on_it(finished: Checkout) -> None:
    """Which sources every job has is in test_provenance."""
    for source in ("surrogates/clustering.py", "attacks/decoder.py"):
        finished.append(f"cemlib/{source}")
    plan = finished.plan()
    assert [plan.runs(job) for job in JOBS] == [CLUSTERED, ALL, CLUSTERED]
    assert plan.rules - set(JOBS) == DRAWN | {"track"}


def test_what_decides_no_number_reruns_nothing(finished: Checkout) -> None:
    """A touch of every source, a new line in a plug-in package, an edit of the command line."""
    for file in finished.root.glob("cemlib/**/*.py"):
        os.utime(file)
    for source in (
        "surrogates/__init__.py",
        "attacks/__init__.py",
        "cli/commands.py",
        "config/study.py",
    ):
        finished.append(f"cemlib/{source}")
    outcome = finished.snakemake()
    assert (outcome.code, outcome.jobs) == (0, [])
    assert "Nothing to be done" in outcome.output


STRONGER = {"surrogate": {"name": "clustering", "lambda": 8.0}}
STRENGTH_DEFENCE_AND_DECODER = {
    "attacks": {"decoder": {"epochs": 3}},
    "defences": {"clustering": STRONGER, "louder": {"noise_std": 0.1}},
}
RIDGE_AND_SEED = {"attacks": {"linear": {"ridge": 0.01}}, "seeds": [0, 1]}
CHANGED = CLUSTERED | {("louder", "0")}
SECOND = {(defence, "1") for defence, _ in ALL}


@pytest.mark.parametrize(
    ("changes", "train", "attack", "closed_form"),
    [
        (STRENGTH_DEFENCE_AND_DECODER, CHANGED, ALL | CHANGED, CHANGED),
        (RIDGE_AND_SEED, SECOND, SECOND, ALL | SECOND),
    ],
)
def test_a_changed_setting_reruns_what_uses_it(
    finished: Checkout, changes: dict[str, Any], train: Runs, attack: Runs, closed_form: Runs
) -> None:
    finished.configure(tiny(**changes))
    plan = finished.plan()
    assert [plan.runs(job) for job in JOBS] == [train, attack, closed_form]
    assert {"tables", "figures", "track"} <= plan.rules
    assert "prepare" not in plan.rules


def test_a_defence_by_its_name_plans_its_jobs_alone(fresh: Checkout) -> None:
    """With the settings of all files that the study extends, and of the command line."""
    fresh.configure({"seeds": [4]}, "short.yaml")
    (fresh.root / "sub").mkdir()
    short = {"extends": ["../study.yaml", "../short.yaml"], "experiment": "shorter"}
    fresh.configure(short, "sub/study.yaml")
    plan = fresh.plan("clustering", "--config", "threads=2", config="sub/study.yaml")
    assert plan.runs("train") == {("clustering", "4")}
    assert {job.fields["threads"] for job in plan.of("train")} == {"2"}
    assert all("results/shorter/" in job.fields["output"] for job in plan.of("train"))
    assert {job.defence for job in plan.jobs} == {None, "clustering"}
    assert [job.rule for job in plan.jobs if job.defence is None] == ["prepare", "judge"]
    assert plan.rules == {"prepare", "judge", *JOBS, "report_one", "track_one"}


def test_without_configfile_the_embedded_default_is_planned(fresh: Checkout) -> None:
    """The embedded studies of the other systems are targets beside it.

    That a run without a target leaves them out is in `test_workflow_run`.
    """
    further = ("federated", "pctc")
    plan = fresh.plan("all", *further, config=None)
    defences = {"none", "noise", "clustering", "gated", "slot", "image_aware"}
    assert plan.runs("train") == {(name, seed) for name in defences for seed in "01234"}
    planned = Plan(load(REPOSITORY / "config/config.yaml"))
    assert plan.attacks() == set(planned.study.learned_attacks())
    own = [job for job in plan.jobs if not job.rule.startswith(further)]
    assert len(own) == len(jobs(planned)) + 1  # track
    assert {"federated_report", "pctc_report"} <= plan.rules
    assert len(plan.of("pctc_repeat")) == 10
