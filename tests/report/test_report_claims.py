"""Sentences about comparisons: they say what the corrected test supports, and no more."""

import math
from typing import Any

import pandas as pd
import pytest
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
        "p_holm_study": 0.0321,
        "verdict": "higher",
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
    lower = {"verdict": "lower", "metric": "top1", "knowledge": ""} | numbers
    assert claim(row(**lower)).startswith(
        "strong one lowers accuracy over noise by 2.00 [1.00, 3.00] percentage points: shown"
    )


@pytest.mark.parametrize(
    ("metric", "verdict", "side"),
    [("mse", "lower", "worse"), ("ssim", "higher", "worse"), ("psnr", "lower", "better")],
)
def test_whose_side_it_is_on(metric: str, verdict: str, side: str) -> None:
    assert f", the {side} side: shown by" in claim(row(metric=metric, verdict=verdict))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"p_holm_study": 0.06}, "No difference to noise shown by 3 pairs; that is no proof"),
        ({"p_holm_study": math.nan, "n_pairs": 1}, "Not tested: 1 pair of seeds is too few."),
        ({"p_holm_study": math.nan, "difference": math.nan}, "Not tested: a value is not finite."),
        ({"p_holm_study": math.nan}, "Not tested: the seeds' differences are all equal, so"),
    ],
)
def test_nothing_is_claimed_without_support(changes: dict[str, Any], words: str) -> None:
    assert claim(row(**changes, verdict="no difference shown")).startswith(words)


def test_every_comparison_stands_in_the_list_once(full_study: Study) -> None:
    table = comparisons_table(*collect(full_study.runs, full_study.attacks), DEFENCES, None)
    text = claims(table)
    shown, rest = text.split("## No difference shown")
    supported = table[table["p_holm_study"] < 0.05]
    assert 0 < len(supported) < len(table)
    assert [line for line in shown.splitlines() if line.startswith("- ")] == [
        f"- {claim({str(k): v for k, v in each.items()})}" for each in supported.to_dict("records")
    ]
    lists = [line.split(": ")[1] for line in rest.splitlines() if line.startswith("- ")]
    named = ", ".join(lists).split(", ")
    assert sorted(named) == sorted(table.loc[table["p_holm_study"] >= 0.05, "defence"])
    assert "## Not tested" not in text


def test_untested_and_lone_defences_are_told() -> None:
    untested = row(p_holm_study=math.nan, verdict="no difference shown", n_pairs=1)
    text = claims(pd.DataFrame([untested]))
    assert "## Not tested\n\n- worst-case MSE (train data): strong one\n" in text
    assert "## Shown\n\nNothing.\n" in text
    assert "nothing to compare it with" in claims(pd.DataFrame([]))
