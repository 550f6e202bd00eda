"""Sweeps in tables and figures: numbers by hand, failed runs counted, every file in its place."""

import math
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reading_figures import labelled, texts
from scipy import stats
from synthetic_study import Study

from cemlib.config import parse
from cemlib.report.build import Results, figures
from cemlib.report.collect import collect
from cemlib.report.figures import figure_entry
from cemlib.report.frontier import Sweeps, sweep_points, targets
from cemlib.report.frontier_tables import frontier_table, tradeoff_table
from cemlib.report.tradeoff import frontier
from cemlib.study.finished import rerun_job
from cemlib.study.plan import Plan
from cemlib.study.split import jobs, jobs_of_one

ROOT = Path(__file__).parents[2]
FAMILIES: Any = {
    "noise": {"n1": {"noise_std": 0.1}, "n2": {"noise_std": 0.2}},
    "gated": {"g2": {"lambda": 2, "gate": "log"}, "g8": {"lambda": 8, "gate": "log"}},
}
SWEEPS = Sweeps(FAMILIES)
# Accuracy [%] and MSE of each seed: straight lines whose values between can be said by heart.
RESULTS = {
    "n1": [(98.0, 0.010), (98.0, 0.020), (97.0, 0.010)],
    "n2": [(90.0, 0.030), (90.0, 0.040), (91.0, 0.040)],
    "g2": [(99.0, 0.020), (98.0, 0.030), (99.0, 0.020)],
    "g8": [(89.0, 0.060), (90.0, 0.070), (91.0, 0.100)],
}


def fill(study: Study, failed: tuple[tuple[str, int], ...] = ()) -> Study:
    for defence, seeds in RESULTS.items():
        for seed, (accuracy, error) in enumerate(seeds):
            if (defence, seed) in failed:
                study.add_run(defence, seed, status="failed", reason="diverged")
                continue
            study.add_run(defence, seed, top1=accuracy / 100)
            for attack, factor in (("decoder", 1.0), ("linear", 3.0)):
                scores = {"mse": factor * error, "ssim": 1 - 10 * error}
                study.add_attack(defence, seed, attack, "train_data", **scores)
    return study


def points(study: Study, sweeps: Sweeps = SWEEPS) -> pd.DataFrame:
    return sweep_points(*collect(study.runs, study.attacks), sweeps)


def test_a_point_is_the_worst_case_at_its_strength(study: Study) -> None:
    study.add_run("alone", 0)
    study.add_attack("alone", 0, "decoder", "train_data")
    found = points(fill(study))
    assert len(found) == 12  # what is of no sweep is no point
    row = found[(found["defence"] == "g8") & (found["seed"] == 1)].iloc[0]
    assert (row["family"], row["accuracy"], row["mse"], row["lambda"]) == ("gated", 90, 0.07, 8)
    assert SWEEPS.strengths() == ["noise_std", "lambda"]


def test_privacy_at_matched_accuracy_by_hand(study: Study) -> None:
    """At 94 %: noise .02 .03 .025, gated .04 .05 .07, strengths 5, 5 and 5.75."""
    table = tradeoff_table(points(fill(study)), Sweeps(FAMILIES, match_accuracy=[94.0]))
    noise, gated = table.to_dict("records")
    assert (noise["family"], gated["family"]) == ("noise", "gated")
    seeds = {"noise": [0.02, 0.03, 0.025], "gated": [0.04, 0.05, 0.02 + 0.08 * 5 / 8]}
    for row, values in ((noise, seeds["noise"]), (gated, seeds["gated"])):
        low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
        found = (row["mse_mean"], row["mse_ci_low"], row["mse_ci_high"])
        assert found == pytest.approx((np.mean(values), low, high))
        assert row["ssim_mean"] == pytest.approx(1 - 10 * np.mean(values))
        assert (row["n_seeds"], row["n_matched"], row["n_failed"]) == (3, 3, 0)
    assert gated["lambda_mean"] == pytest.approx((5 + 5 + 2 + 6 * 5 / 8) / 3)
    assert math.isnan(gated["noise_std_mean"])
    assert noise["noise_std_mean"] == pytest.approx(0.15)


def test_families_are_compared_seed_by_seed(study: Study) -> None:
    table = tradeoff_table(points(fill(study)), Sweeps(FAMILIES, match_accuracy=[94.0]))
    noise, gated = table.to_dict("records")
    expected = stats.ttest_rel([0.04, 0.05, 0.07], [0.02, 0.03, 0.025])
    assert gated["reference"] == noise["reference"] == "noise"
    assert gated["n_pairs"] == 3
    assert gated["difference"] == pytest.approx(0.085 / 3)
    assert gated["p"] == pytest.approx(expected.pvalue)
    assert gated["p_holm"] == gated["p"]
    assert math.isnan(noise["difference"])


def test_beyond_a_seeds_curve_it_does_not_count(study: Study) -> None:
    """At 97.5 % the third seed of noise has nothing; at 99.5 % nobody has."""
    table = tradeoff_table(points(fill(study)), Sweeps(FAMILIES, match_accuracy=[97.5, 99.5]))
    near, far = (table[table["accuracy"] == accuracy] for accuracy in (97.5, 99.5))
    assert near["n_matched"].tolist() == [2, 3]
    assert near["n_pairs"].tolist()[1] == 2
    assert near["mse_mean"].iloc[0] == pytest.approx((0.01125 + 0.02125) / 2)
    assert far["n_matched"].tolist() == [0, 0]
    assert far[["mse_mean", "lambda_mean", "difference"]].isna().all(axis=None)


def test_without_a_wish_the_accuracies_lie_in_the_common_stretch(study: Study) -> None:
    """All six fronts cover 91 to 97 %."""
    assert targets(points(fill(study)), SWEEPS) == [92.5, 94.0, 95.5]
    table = tradeoff_table(points(study), SWEEPS)
    assert table["n_matched"].tolist() == [3] * 6


def test_hypervolumes_by_hand(study: Study) -> None:
    """From 89 %, the lowest of all: for noise 9 x .01 + 1 x .02 and so on."""
    noise, gated = frontier_table(points(fill(study)), SWEEPS).to_dict("records")
    areas = {
        "noise": [9 * 0.01 + 1 * 0.02, 9 * 0.02 + 1 * 0.02, 8 * 0.01 + 2 * 0.03],
        "gated": [10 * 0.02 + 0 * 0.04, 9 * 0.03 + 1 * 0.04, 10 * 0.02 + 2 * 0.08],
    }
    for row, values in ((noise, areas["noise"]), (gated, areas["gated"])):
        assert (row["floor_accuracy"], row["floor_mse"]) == (89, 0)
        low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
        found = [row[f"hypervolume_{part}"] for part in ("mean", "ci_low", "ci_high")]
        assert found == pytest.approx([np.mean(values), low, high])
    p = stats.ttest_rel(areas["gated"], areas["noise"]).pvalue
    assert gated["p"] == pytest.approx(p)
    assert gated["efficient"] == "g8 (3), g2 (3)"
    fixed = frontier_table(points(study), Sweeps(FAMILIES, accuracy_floor=97.0))
    assert fixed["hypervolume_mean"].iloc[0] == pytest.approx((0.01 + 0.02 + 0) / 3)


def test_a_failed_run_is_counted_and_is_no_point(study: Study) -> None:
    """Seed 1 of gated is left with one point, and reaches no accuracy but its own."""
    found = points(fill(study, failed=(("g8", 1),)))
    table = tradeoff_table(found, Sweeps(FAMILIES, match_accuracy=[94.0]))
    assert table["n_failed"].tolist() == [0, 1]
    assert table["n_seeds"].tolist() == [3, 3]
    assert table["n_matched"].tolist() == [3, 2]
    assert table["n_pairs"].tolist()[1] == 2
    areas = frontier_table(found, SWEEPS).iloc[1]
    assert areas["hypervolume_mean"] == pytest.approx((0.2 + 9 * 0.03 + 0.36) / 3)
    assert areas["efficient"] == "g2 (3), g8 (2)"


def test_a_failed_attack_is_counted_though_the_run_is_there(study: Study) -> None:
    study.add_run("n3", 0, top1=0.8)
    study.add_attack("n3", 0, "decoder", "train_data", status="failed")
    study.add_attack("n3", 0, "linear", "train_data", mse=0.9)  # not known to be the worst case
    families = FAMILIES | {"noise": FAMILIES["noise"] | {"n3": {"noise_std": 0.4}}}
    found = frontier_table(points(fill(study), Sweeps(families)), Sweeps(families))
    assert found["n_failed"].tolist() == [1, 0]
    assert found["floor_accuracy"].tolist() == [89, 89]


def test_a_family_that_failed_altogether_has_no_numbers(study: Study) -> None:
    found = points(fill(study, failed=tuple((d, s) for d in ("g2", "g8") for s in range(3))))
    table, areas = tradeoff_table(found, SWEEPS), frontier_table(found, SWEEPS)
    gated = table[table["family"] == "gated"]
    assert gated["n_matched"].tolist() == [0, 0, 0]
    assert gated["n_failed"].tolist() == [6, 6, 6]
    assert gated[["mse_mean", "difference"]].isna().all(axis=None)
    assert math.isnan(areas["hypervolume_mean"].iloc[1])
    assert areas["efficient"].iloc[1] == ""
    (panel,) = frontier(found, SWEEPS, "train_data").axes
    assert [text for text in texts(panel) if text] == ["σ 0.1", "σ 0.2"]


def test_a_study_without_a_result_has_tables_and_a_figure_that_say_so(study: Study) -> None:
    every = tuple((d, s) for d in RESULTS for s in range(3))
    study.add_run("alone", 0)
    study.add_attack("alone", 0, "decoder", "train_data")
    found = points(fill(study, failed=every))
    assert tradeoff_table(found, SWEEPS).empty
    assert frontier_table(found, SWEEPS)["n_failed"].tolist() == [6, 6]
    (panel,) = frontier(found, SWEEPS, "train_data").axes
    assert "no defence has a finished result" in texts(panel)


def test_the_figure_shows_every_seed_the_means_and_the_front(study: Study) -> None:
    study.add_run("g4", 0, top1=0.85)  # beaten by g8 in both: a mark, but no part of the line
    study.add_attack("g4", 0, "decoder", "train_data", mse=0.05)
    study.add_attack("g4", 0, "linear", "train_data", mse=0.06)
    families = FAMILIES | {"gated": FAMILIES["gated"] | {"g4": {"lambda": 4, "gate": "log"}}}
    sweeps = Sweeps(families, match_accuracy=[94.0])
    figure = frontier(points(fill(study), sweeps), sweeps, "train_data")
    assert labelled(figure)
    (panel,) = figure.axes
    drawn = [np.column_stack(line.get_data()).tolist() for line in panel.lines]
    seeds = [[list(p) for p in RESULTS[d]] for d in ("g2", "g8")]
    cloud = next(line for line in drawn if len(line) == 7)
    for point in chain(*seeds):
        assert any(point == pytest.approx(other) for other in cloud)
    means = [np.mean(RESULTS[d], axis=0).tolist() for d in ("g8", "g2")]
    assert any(np.shape(line) == (2, 2) and np.allclose(line, means) for line in drawn)
    assert any(line == [[94.0, 0], [94.0, 1]] for line in drawn)
    shown = {text for text in texts(panel) if text}
    assert shown == {"σ 0.1", "σ 0.2", "λ 2, gate log", "λ 8, gate log", "λ 4, gate log"}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["noise", "gated"]


def test_the_report_of_a_study_with_sweeps_writes_what_the_plan_names(tmp_path: Path) -> None:
    raw: dict[str, Any] = {
        "experiment": "synthetic",
        "results": str(tmp_path),
        "data": {"source": "digits"},
        "sweeps": {
            "noise": {"over": {"noise_std": [0.1, 0.2]}},
            "gated": {"surrogate": "gated", "over": {"lambda": [2, 8]}},
        },
        "attacks": {"linear": {}},
    }
    plan, study = Plan(parse(raw), stale=True), Study(tmp_path / "synthetic")  # made up
    for place, defence in enumerate(plan.study.defences):
        for seed in range(3):
            study.add_run(defence, seed, top1=0.99 - 0.01 * place - 0.001 * seed)
            for knowledge in ("train_data", "public_data"):
                study.add_attack(defence, seed, "linear", knowledge, mse=0.01 * (place + 1))
    found = {job.kind: job for job in jobs(plan)}
    tables = found["tables"].outputs
    assert set(rerun_job(found["tables"])) == set(tables)
    assert [path.name for path in tables[-2:]] == ["tradeoff.csv", "frontier.csv"]
    one, *_ = jobs_of_one(plan, "noise_noise_std0p1")
    assert {path.name for path in rerun_job(one)} == {path.name for path in tables[:-2]}
    table = pd.read_csv(tables[-2])
    assert set(table["knowledge"]) == {"train_data", "public_data"}
    assert {"lambda_mean", "noise_std_mean"} <= set(table.columns)
    curves = [path for path in found["figures"].outputs if path.stem.startswith("frontier-")]
    sweeps = Sweeps(plan.study.families())
    runs, attacks = study.runs, study.attacks
    drawn = figures(Results(*collect(runs, attacks), list(plan.study.defences), None, sweeps))
    assert set(drawn) >= {path.stem for path in curves}
    assert [figure_entry(path).title for path in curves[::2]] == [
        "curves of the sweeps, train data",
        "curves of the sweeps, public data",
    ]
