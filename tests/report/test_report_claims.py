"""Sentences about comparisons: they say what the corrected test supports, and no more."""

import math
from typing import Any

import pandas as pd
from synthetic_study import DEFENCES, Study

from cemlib.report.claims import claim, claims
from cemlib.report.collect import collect
from cemlib.report.comparisons import comparisons_table


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
        "g_z": 4.4321,
        "p_holm": 0.0321,
        "verdict": "higher",
        "unconverged": "",
    } | changes


def test_a_shown_difference_is_told_with_its_numbers() -> None:
    assert claim(row()) == (
        "strong one raises worst-case MSE (train data) over noise by 0.00551 [0.00377, 0.00726],"
        " the better side: shown by 3 pairs of seeds, g_z 4.4, p (Holm) 0.032."
    )


def test_two_pairs_have_no_effect_size() -> None:
    words = claim(row(n_pairs=2, g_z=math.nan))
    assert words.endswith("shown by 2 pairs of seeds, p (Holm) 0.032.")


def test_a_lowered_score_is_told_by_how_much_it_is_lower() -> None:
    numbers = {"difference": -0.02, "ci_low": -0.03, "ci_high": -0.01, "g_z": -2.0}
    assert claim(row(verdict="lower", **numbers)).startswith(
        "strong one lowers worst-case MSE (train data) over noise by 0.0200 [0.0100, 0.0300], the"
        " worse side: shown"
    )


def test_every_tested_comparison_stands_in_the_list_once(full_study: Study) -> None:
    table = comparisons_table(*collect(full_study.runs, full_study.attacks), DEFENCES, None)
    text = claims(table)
    table = table[table["metric"] == "mse"]
    supported = table[table["p_holm"] < 0.05]
    assert 0 < len(supported) < len(table) == 8
    assert "over all 8 defences and knowledges" in text.replace("\n", " ")
    shown, rest = text.split("## No difference shown")
    assert [line for line in shown.splitlines() if line.startswith("- ")] == [
        f"- {claim({str(k): v for k, v in each.items()})}" for each in supported.to_dict("records")
    ]
    lists = [line.split(": ")[1] for line in rest.splitlines() if line.startswith("- ")]
    named = ", ".join(lists).split(", ")
    assert sorted(named) == sorted(table.loc[table["p_holm"] >= 0.05, "defence"])
    assert "## Not tested" not in text


def test_untested_and_lone_defences_are_told() -> None:
    untested = row(p_holm=math.nan, verdict="no difference shown", n_pairs=1)
    text = claims(pd.DataFrame([untested, row(metric="ssim", verdict="", p_holm=math.nan)]))
    assert "## Not tested\n\n- worst-case MSE (train data): strong one\n" in text
    assert "## Shown\n\nNothing.\n" in text
    assert text.count("strong one") == 1  # SSIM is in no list
    assert "nothing to compare it with" in claims(pd.DataFrame([]))
