"""Sentences about comparisons: they say what the corrected test supports, and no more."""

import math
from typing import Any

import pandas as pd
from synthetic_study import DEFENCES, Study

from cemlib.report.claims import claim, claims
from cemlib.report.comparisons import comparisons_table
from cemlib.report.style import readable


def row(**changes: Any) -> dict[str, Any]:
    return {
        "defence": "strong_one",
        "reference": "noise",
        "knowledge": "train_data",
        "metric": "mse",
        "n_pairs": 3,
        "difference": 0.00551,
        "ci_low": 0.00377,
        "ci_high": 0.00726,
        "p_holm": 0.0321,
        "verdict": "higher",
        "unconverged": "",
    } | changes


def test_a_shown_difference_is_told_with_its_numbers_and_its_cost() -> None:
    told = (
        "strong one is significantly more private than noise (MSE +0.00551 [+0.00377, +0.00726],"
        " p = 0.032, 3 pairs of seeds"
    )
    assert claim(row()) == f"{told})."
    accuracy = row(metric="top1", difference=-0.0123, ci_low=-0.02, ci_high=0.004)
    cost = "accuracy −1.23 [−2.00, +0.40] percentage points"
    assert claim(row(), accuracy) == f"{told}; {cost})."
    other = claim(row(), accuracy | {"n_pairs": 4})
    assert other == f"{told}; {cost}, on 4 pairs of seeds, since attacks failed)."
    numbers = {"difference": -0.02, "ci_low": -0.03, "ci_high": -0.01, "p_holm": 0.0004}
    assert claim(row(verdict="lower", **numbers)) == (
        "strong one is significantly less private than noise (MSE −0.0200 [−0.0300, −0.0100],"
        " p < 0.001, 3 pairs of seeds)."
    )


def test_a_difference_without_size_has_the_decimals_of_its_interval() -> None:
    accuracy = row(metric="top1", difference=-1.2e-8, ci_low=-0.00587, ci_high=0.00587)
    assert "; accuracy +0.000 [−0.587, +0.587] percentage points" in claim(row(), accuracy)


def test_every_tested_comparison_has_one_sentence(full_study: Study) -> None:
    table = comparisons_table(*full_study.frames(), DEFENCES, None)
    text = claims(table)
    tested = table[table["metric"] == "mse"]
    supported = tested["p_holm"] < 0.05
    assert 0 < supported.sum() < len(tested) == 8
    assert "(number of tests: 8)" in text
    for knowledge, rows in tested.groupby("knowledge"):
        (section,) = (
            s for s in text.split("## ") if s.startswith(f"Attacker with {readable(knowledge)}")
        )
        lines = [line for line in section.splitlines() if line.startswith("- ")]
        assert [line.split(" is ")[0].split(":")[0] for line in lines] == [
            f"- {readable(name)}" for name in rows["defence"]
        ]
        assert ["significantly" in line for line in lines] == supported[rows.index].tolist()
        assert ["no significant difference from noise" in line for line in lines] == [
            not shown for shown in supported[rows.index]
        ]


def test_one_pair_and_a_lone_defence_are_told() -> None:
    nothing = {"p_holm": math.nan, "verdict": "no difference shown", "n_pairs": 1}
    untested = row(**nothing, ci_low=math.nan, ci_high=math.nan)
    text = claims(pd.DataFrame([untested, row(metric="ssim", verdict="", p_holm=math.nan)]))
    assert text.count("strong one") == 1  # SSIM is in no sentence
    assert text.endswith("\n- strong one could not be tested (MSE +0.00551).\n")
    assert "nothing to compare.\n" in claims(pd.DataFrame({"metric": []}))
    assert "no accuracy lies on" in claims(pd.DataFrame({"family": [], "reference": []}))
    failed = row(**nothing | {"n_pairs": 0}, difference=math.nan, ci_low=math.nan, ci_high=math.nan)
    assert claim(failed) == (
        "strong one could not be tested: there is no seed on which both it and noise have a result."
    )
