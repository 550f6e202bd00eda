"""Which jobs rerun after a change: those that it concerns, and no others."""

import os
from typing import Any

import pytest
from checkout import Checkout, tiny

ALL = {(defence, "0") for defence in ("noise", "clustering", "wild")}
CLUSTERED = {("clustering", "0")}
JOBS = ("train", "attack", "attack_closed_form")
JUDGE = {"judge"}
DRAWN = {"tables", "figures", "training_figures", "page"}
Runs = set[tuple[str | None, str | None]]


@pytest.mark.parametrize(
    ("source", "train", "attack", "closed_form", "report"),
    [
        ("surrogates/clustering.py", CLUSTERED, CLUSTERED, CLUSTERED, DRAWN),
        ("attacks/decoder.py", set(), ALL, set(), {"tables", "figures", "page"}),
        ("training/trainer.py", ALL, ALL, ALL, DRAWN | JUDGE),
        pytest.param(
            *("defences/channels/noise.py", ALL, ALL, ALL, DRAWN | JUDGE), marks=pytest.mark.slow
        ),
        ("report/style.py", set(), set(), set(), DRAWN),
        ("report/page/page.css", set(), set(), set(), {"page"}),
    ],
)
def test_an_edited_source_reruns_what_depends_on_it(
    finished: Checkout, source: str, train: Runs, attack: Runs, closed_form: Runs, report: set[str]
) -> None:
    finished.append(f"cemlib/{source}")
    plan = finished.plan()
    assert [plan.runs(job) for job in JOBS] == [train, attack, closed_form]
    assert plan.rules - set(JOBS) == report | {"track"}


def test_what_decides_no_number_reruns_nothing(finished: Checkout) -> None:
    """A touch of every source, a new line in a plug-in room, an edit of the command line."""
    for file in finished.root.glob("cemlib/**/*.py"):
        os.utime(file)
    for source in (
        "surrogates/__init__.py",
        "attacks/__init__.py",
        "cli/commands.py",
        "config/study.py",
    ):
        finished.append(f"cemlib/{source}")
    plan = finished.plan()
    assert plan.jobs == []
    assert "Nothing to be done" in plan.output


def _clustering(config: dict[str, Any]) -> None:
    config["defences"]["clustering"] = {"surrogate": {"name": "clustering", "lambda": 8.0}}


def _decoder(config: dict[str, Any]) -> None:
    config["attacks"]["decoder"]["epochs"] = 3


def _linear(config: dict[str, Any]) -> None:
    config["attacks"]["linear"] = {"ridge": 0.01}


def _seed(config: dict[str, Any]) -> None:
    config["seeds"] = [0, 1]


def _defence(config: dict[str, Any]) -> None:
    config["defences"]["louder"] = {"noise_std": 0.1}


LOUDER = {("louder", "0")}
SECOND = {(defence, "1") for defence, _ in ALL}


def _refinement(config: dict[str, Any]) -> None:
    config["attacks"]["refinement"]["iterations"] = 3


@pytest.mark.parametrize(
    ("change", "attacks"), [(_decoder, {"decoder", "refinement"}), (_refinement, {"refinement"})]
)
def test_an_attack_reruns_with_the_decoder_it_starts_from(
    finished: Checkout, change: Any, attacks: set[str]
) -> None:
    config = tiny()
    change(config)
    finished.configure(config)
    assert finished.plan().attacks() == attacks


@pytest.mark.parametrize(
    ("change", "train", "attack", "closed_form"),
    [
        (_clustering, CLUSTERED, CLUSTERED, CLUSTERED),
        (_decoder, set(), ALL, set()),
        (_linear, set(), set(), ALL),
        (_seed, SECOND, SECOND, SECOND),
        (_defence, LOUDER, LOUDER, LOUDER),
    ],
)
def test_a_changed_setting_reruns_what_uses_it(
    finished: Checkout, change: Any, train: Runs, attack: Runs, closed_form: Runs
) -> None:
    config = tiny()
    change(config)
    finished.configure(config)
    plan = finished.plan()
    assert [plan.runs(job) for job in JOBS] == [train, attack, closed_form]
    assert {"tables", "figures", "track"} <= plan.rules
    assert "prepare" not in plan.rules


def test_a_defence_by_its_name_plans_its_jobs_alone(fresh: Checkout) -> None:
    plan = fresh.plan("clustering")
    assert {job.defence for job in plan.jobs} == {None, "clustering"}
    assert [job.rule for job in plan.jobs if job.defence is None] == ["prepare", "judge"]
    assert plan.rules == {"prepare", "judge", *JOBS, "report_one", "track_one"}


def test_forcing_train_for_one_run_plans_one_training(finished: Checkout) -> None:
    plan = finished.plan("results/tiny/runs/clustering/seed0/metrics.json", "--forcerun", "train")
    assert plan.runs("train") == CLUSTERED
    assert len(plan.jobs) == 1


def test_without_configfile_the_embedded_default_is_planned(fresh: Checkout) -> None:
    plan = fresh.plan(config=None)
    defences = {"none", "noise", "clustering", "gated", "slot", "image_aware"}
    assert plan.runs("train") == {(name, seed) for name in defences for seed in "01234"}
