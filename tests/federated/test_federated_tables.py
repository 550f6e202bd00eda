"""The numbers of the tables, from runs and attacks made up by hand.

References: means and sums in the head, SciPy's interval and paired test.
"""

import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from scipy.stats import sem, t, ttest_rel
from tiny_federation import study_of

from cemlib.federated import tables
from cemlib.federated.tables import Results
from cemlib.report.cells import mean

# Accuracy with the seeds 0, 1 and 2; the last training diverged before its first round ended.
TOP1 = {"none": [0.90, 0.92, 0.91], "both": [0.80, 0.85, 0.81], "dp_sgd": [0.70, 0.74, None]}
WORST = {"none": 0.1, "both": 0.2, "dp_sgd": 0.3}  # the scores of the worst case
# By how much the scores of each attack are above those.
ABOVE = {"idlg": 0.4, "mean_image": 0.5, "worst_case": 0.0}
STUDY = study_of(inversion={"attacks": {"idlg": {"mask": "known"}, "mean_image": {}}})


def run(variant: str, seed: int, top1: float | None) -> dict[str, Any]:
    """The record of a training of three rounds, or of none where it failed."""
    ended = {"status": "failed", "epochs": 0, "bytes_up": 0, "bytes_down": 0}
    if top1 is not None:
        ended = {"status": "ok", "epochs": 3, "bytes_up": 600 + seed, "bytes_down": 900}
        ended["round_seconds"] = {"none": 0.1}.get(variant, 0.3)
        ended["epsilon"] = {"dp_sgd": 2.0 + seed}.get(variant)
    fates = {"asked": 9, "dropped": seed, "excluded": 1}
    return {"defence": variant, "seed": seed, "top1": top1, **ended, **fates}


def attack(variant: str, name: str) -> dict[str, Any]:
    mean = WORST[variant] + ABOVE[name]
    ends = {"mean": mean, "ci_low": mean - 0.05, "ci_high": mean + 0.05}
    scores = {f"{score}_{end}": x for score in ("mse", "psnr", "ssim") for end, x in ends.items()}
    return {"defence": variant, "attack": name, "failed": 0} | scores


@pytest.fixture
def results() -> Results:
    return Results(
        runs=pd.DataFrame([run(v, seed, x) for v in TOP1 for seed, x in enumerate(TOP1[v])]),
        rounds=pd.DataFrame(),
        attacks=pd.DataFrame([attack(variant, name) for variant in TOP1 for name in ABOVE]),
        gans=pd.DataFrame(),
        pseudo=pd.DataFrame({"wall_seconds": [4.0, 6.0], "source": ["torchvision"] * 2}),
    )


def test_accuracy_is_over_the_seeds_that_did_not_fail(results: Results) -> None:
    found = tables.accuracy_table(results, STUDY).set_index("variant")
    assert found["n_seeds"].tolist() == [3, 3, 3]
    assert found["n_failed"].tolist() == [0, 0, 1]
    assert found["top1_mean"].tolist() == pytest.approx([0.91, 0.82, 0.72])
    ends = t.interval(0.95, 2, 0.82, sem(TOP1["both"]))
    assert found.loc["both", ["top1_ci_low", "top1_ci_high"]].tolist() == pytest.approx(ends)


def test_the_fates_of_all_seeds_are_added_and_the_largest_epsilon_is_told(results: Results) -> None:
    found = tables.accuracy_table(results, STUDY).set_index("variant")
    assert found[["asked", "dropped", "excluded"]].to_numpy().tolist() == [[27, 3, 3]] * 3
    assert found.loc["dp_sgd", "epsilon"] == 3.0
    assert found["epsilon"].isna().tolist() == [True, True, False]


def test_variants_are_compared_with_the_reference_over_the_seeds_of_both(results: Results) -> None:
    found = tables.differences_table(results, STUDY)
    assert found["variant"].tolist() == ["both", "dp_sgd"]
    assert found["difference"].tolist() == pytest.approx([-0.09, -0.19])
    assert found["n_pairs"].tolist() == [3, 2]
    first = ttest_rel(TOP1["both"], TOP1["none"]).pvalue
    second = ttest_rel(TOP1["dp_sgd"][:2], TOP1["none"][:2]).pvalue
    assert found["p"].tolist() == pytest.approx([first, second])
    assert 2 * first < second  # so Holm's correction doubles the first alone
    assert found["p_holm"].tolist() == pytest.approx([2 * first, second])


def test_costs_are_those_of_a_round(results: Results) -> None:
    found = tables.cost_table(results, STUDY).set_index("variant")
    up = [601 / 3, 601 / 3, 600.5 / 3]  # the mean over the seeds that did not fail
    assert found["bytes_up_per_round"].tolist() == pytest.approx(up)
    assert found["bytes_down_per_round"].tolist() == [300, 300, 300]
    assert found["seconds_mean"].tolist() == pytest.approx([0.1, 0.3, 0.3])
    assert found["times_reference"].tolist() == pytest.approx([1, 3, 3])
    assert found.loc["both", "gan_seconds"] == 5
    assert found["gan_seconds"].isna().tolist() == [True, False, True]  # the others mix nothing


def test_accuracy_is_set_against_the_worst_case(results: Results) -> None:
    found = tables.tradeoff_table(results, STUDY)
    assert found["top1_mean"].tolist() == pytest.approx([0.91, 0.82, 0.72])
    for score in ("mse", "psnr", "ssim"):
        assert found[f"{score}_mean"].tolist() == pytest.approx([0.1, 0.2, 0.3])
        assert found[f"{score}_ci_low"].tolist() == pytest.approx([0.05, 0.15, 0.25])
        assert found[f"{score}_ci_high"].tolist() == pytest.approx([0.15, 0.25, 0.35])


def test_a_worst_case_that_failed_is_shown_as_failed(results: Results) -> None:
    rows = results.attacks.copy()
    lost = rows["defence"].eq("both") & rows["attack"].eq("worst_case")
    rows.loc[lost, [c for c in rows if c.startswith(("mse", "psnr", "ssim"))]] = math.nan
    rows.loc[lost, "failed"] = 2
    found = tables.tradeoff_table(replace(results, attacks=rows), STUDY).set_index("variant")
    cell = mean("mse", 4)
    assert [cell(row) for _, row in found.iterrows()][:2] == ["0.1000 ± 0.0500", "failed"]


def test_the_worst_case_comes_first_and_attacks_say_what_they_know(results: Results) -> None:
    found = tables.privacy_table(results, STUDY)
    assert found["attack"].tolist() == ["worst_case"] * 3 + ["idlg"] * 3 + ["mean_image"] * 3
    assert found["mask"].tolist() == [""] * 3 + ["known"] * 3 + ["ignored"] * 3
    assert found["variant"].tolist() == ["none", "both", "dp_sgd"] * 3
    means = [0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.6, 0.7, 0.8]
    assert found["mse_mean"].tolist() == pytest.approx(means)
