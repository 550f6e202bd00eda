"""Sweeps in table and figure: numbers by hand, failed runs counted, every file in its place."""

import math
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reading_figures import explained, labelled, texts
from scipy import stats
from synthetic_study import Study

from cemlib.config import parse
from cemlib.report.at_accuracy import Curves, detectable, tradeoff_table
from cemlib.report.build import Results, figures
from cemlib.report.claims import claims, sentences
from cemlib.report.figures import DRAWINGS
from cemlib.report.frontier import Sweeps, mean_curve, sweep_points, targets
from cemlib.report.texts import at_accuracy
from cemlib.report.tradeoff import frontier
from cemlib.study.plan import Plan
from cemlib.study.running import rerun_job
from cemlib.study.split import jobs, tables_of_one

FAMILIES: Any = {
    "noise": {"n1": {"noise_std": 0.1}, "n2": {"noise_std": 0.2}},
    "gated": {"g2": {"lambda": 2, "gate": "log"}, "g8": {"lambda": 8, "gate": "log"}},
}
SWEEPS = Sweeps(FAMILIES)
AT_94 = Sweeps(FAMILIES, match_accuracy=[94.0])
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
    return sweep_points(*study.frames(), sweeps)


def test_a_point_is_the_worst_case_at_its_strength(study: Study) -> None:
    study.add_attack("alone", 0)
    found = points(fill(study))
    assert len(found) == 12  # what is of no sweep is no point
    row = found[(found["defence"] == "g8") & (found["seed"] == 1)].iloc[0]
    assert (row["family"], row["accuracy"], row["mse"], row["lambda"]) == ("gated", 90, 0.07, 8)
    assert SWEEPS.strengths() == ["noise_std", "lambda"]


def read_by_hand(names: tuple[str, str], values: Any, seeds: list[int]) -> float:
    """At 94 %, of the means of two defences, on the straight line between them."""
    x, y = ([np.mean([of[n][s] for s in seeds]) for n in names] for of in (ACCURACIES, values))
    return float(np.interp(94.0, x[::-1], y[::-1]))


def pseudo_values(names: tuple[str, str], values: Any) -> list[float]:
    whole = read_by_hand(names, values, [0, 1, 2])
    left = [read_by_hand(names, values, [t for t in range(3) if t != s]) for s in range(3)]
    return [whole + 2 * (np.mean(left) - without) for without in left]


ACCURACIES = {name: [x for x, _ in found] for name, found in RESULTS.items()}
ERRORS = {name: [y for _, y in found] for name, found in RESULTS.items()}


def test_privacy_at_matched_accuracy_is_the_jackknife_of_mean_curves(study: Study) -> None:
    table = tradeoff_table(points(fill(study)), AT_94)
    noise, gated = table.to_dict("records")
    ours, theirs = (pseudo_values(n, ERRORS) for n in (("g2", "g8"), ("n1", "n2")))
    for row, values in ((noise, theirs), (gated, ours)):
        low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
        found = (row["mse_mean"], row["mse_ci_low"], row["mse_ci_high"])
        assert found == pytest.approx((np.mean(values), low, high))
        assert row["ssim_mean"] == pytest.approx(1 - 10 * np.mean(values))
        assert (row["n_seeds"], row["n_failed"], row["reference"]) == (3, 0, "noise")
        assert row["leakage_nats_mean"] == pytest.approx(12.5)
    strengths = {"g2": [2.0] * 3, "g8": [8.0] * 3}
    assert gated["lambda_mean"] == pytest.approx(np.mean(pseudo_values(("g2", "g8"), strengths)))
    assert math.isnan(gated["noise_std_mean"])
    assert gated["n_pairs"] == 3
    assert gated["difference"] == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert gated["p"] == gated["p_holm"] == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert gated["verdict"] == "no difference shown"
    assert math.isnan(noise["difference"])


def test_small_errors_keep_three_digits_in_the_table(study: Study) -> None:
    rows = tradeoff_table(points(fill(study)), AT_94)
    rows[["mse_mean", "mse_ci_low", "mse_ci_high"]] /= 1000  # of 0.024 and 0.052
    table = at_accuracy(rows)
    cells = [row[table.titles.index("MSE ↑")] for row in table.rows]
    noise, gated = rows["mse_mean"]
    assert [cell.split()[0] for cell in cells] == [f"{noise:.7f}", f"{gated:.7f}"]


def test_a_run_at_chance_of_which_a_curve_is_read_bars_the_verdict(study: Study) -> None:
    """A constant answer would be right on 89 % of the images."""
    fill(study).add_run("g8", 1, top1=0.90, chance_top1=0.89)
    assert tradeoff_table(points(study), AT_94)["verdict"].tolist() == ["", "at chance"]


def test_intervals_and_labels_are_drawn_of_few_defences_alone(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = points(fill(study))
    for most, arms in ((4, 4), (3, 0)):
        monkeypatch.setattr("cemlib.report.tradeoff._MOST_LABELS", most)
        (panel,) = frontier(found, SWEEPS, found["knowledge"].iloc[0]).axes
        drawn = [bar for bar in panel.containers if bar.has_xerr and bar.has_yerr]
        assert len(drawn) == arms
        assert len([text for text in panel.texts if text.get_text()]) == arms


def test_the_jackknife_of_a_mean_is_the_mean() -> None:
    """Its pseudo-values are the values themselves."""
    values = [0.3, 0.7, 0.1, 0.5]
    frame = pd.DataFrame({"defence": "d", "seed": range(4), "accuracy": 90.0, "mse": values})
    assert Curves.of(frame).jackknifed(["mse"], 90.0)["mse"].tolist() == pytest.approx(values)
    assert Curves.of(frame[:1]).jackknifed(["mse"], 90.0)["mse"].to_dict() == {0: 0.3}


def test_the_detectable_difference_is_found_in_four_of_five_trials() -> None:
    """By simulation: paired differences of known spread, five and eight of them."""
    draws = np.random.default_rng(0)
    for pairs in (5, 8):
        half = stats.t.ppf(0.975, pairs - 1) / math.sqrt(pairs)  # at a spread of 1
        shift = detectable(half, pairs)
        tried = draws.normal(shift, 1, (4000, pairs))
        assert np.mean(stats.ttest_1samp(tried, 0, axis=1).pvalue < 0.05) == pytest.approx(
            0.8, abs=0.04
        )
    assert math.isnan(detectable(math.nan, 1))


def test_holms_correction_is_over_every_row(study: Study) -> None:
    table = tradeoff_table(points(fill(study)), Sweeps(FAMILIES, match_accuracy=[93.0, 94.0, 95.0]))
    p = table["p"].dropna()
    assert len(p) == 3
    assert table["p_holm"].min() == pytest.approx(min(1, 3 * p.min()))


def test_a_seed_beyond_the_accuracy_counts_while_the_means_reach_it(study: Study) -> None:
    """At 97.2 % the third seed of n1 has nothing by itself; at 97.9 % a curve without it has."""
    table = tradeoff_table(points(fill(study)), Sweeps(FAMILIES, match_accuracy=[97.2, 97.9]))
    near, far = (table[table["accuracy"] == accuracy].iloc[0] for accuracy in (97.2, 97.9))
    assert near["family"] == far["family"] == "noise"
    assert math.isfinite(near["mse_mean"])
    assert math.isnan(far["mse_mean"])  # 97.67 % is the mean of all
    other = table[(table["accuracy"] == 97.9) & (table["family"] == "gated")].iloc[0]
    assert math.isfinite(other["mse_mean"])
    assert math.isnan(other["difference"])


def test_the_claims_of_sweeps_are_about_families_at_the_same_accuracy(study: Study) -> None:
    table = tradeoff_table(points(fill(study)), Sweeps(FAMILIES, match_accuracy=[94.0, 50.0]))
    assert "(number of tests: 1)" in claims(table)
    row = table[table["family"] == "gated"].iloc[0]
    assert sentences(table) == {
        "train data, at 94 % accuracy": [
            f"gated: no significant difference from noise (MSE {row['difference']:+.4f}"
            f" [{row['ci_low']:+.4f}, {row['ci_high']:+.4f}], p = {row['p']:.3f}, 3 pairs of"
            " seeds).".replace("-", "−")
        ],
        "train data, at 50 % accuracy": [
            "gated: no number, because its curve and that of noise do not both reach this accuracy"
            " on the seeds that they share, with all of them and without any one."
        ],
    }


def test_the_claims_of_a_single_sweep_are_about_its_defences(study: Study) -> None:
    only = Sweeps({"noise": FAMILIES["noise"]})
    runs, attacks = (each[each["defence"].isin(["n1", "n2"])] for each in fill(study).frames())
    found = Results(runs, attacks, ["n1", "n2"], None, only, has_images=False)
    (claimed,) = sentences(found.decisive).values()
    assert [sentence.split()[0] for sentence in claimed] == ["n2"]


def test_an_unbounded_leak_is_infinite_at_every_accuracy(study: Study) -> None:
    found = points(fill(study))
    found.loc[found["family"] == "noise", "leakage_nats"] = math.inf
    table = tradeoff_table(found, AT_94)
    assert table["leakage_nats_mean"].tolist() == [math.inf, pytest.approx(12.5)]
    assert math.isnan(table.loc[0, "leakage_nats_ci_low"])


def test_the_middle_is_between_the_ends_of_longer_curves() -> None:
    """They cover 90 to 98, and 88 to 96 %."""
    accuracies = {"noise": (90.0, 94.0, 98.0), "gated": (88.0, 92.0, 96.0)}
    rows = [
        {"family": family, "defence": f"{family}{at}", "accuracy": at, "mse": 1 - at / 100}
        for family, of in accuracies.items()
        for at in of
    ]
    assert targets(pd.DataFrame(rows), SWEEPS) == [93.0]


def test_a_failed_run_is_counted_and_is_no_point(study: Study) -> None:
    """The mean of g8 is over the two others."""
    found = points(fill(study, failed=(("g8", 1),)))
    assert tradeoff_table(found, AT_94)["n_failed"].tolist() == [0, 1]
    assert mean_curve(found[found["family"] == "gated"]).loc["g8", "mse"] == pytest.approx(0.08)


@pytest.mark.parametrize("lost", [(("g2", 1), ("g8", 1)), (("g8", 1),)])
def test_a_seed_that_failed_where_the_curve_is_read_is_no_pair(
    study: Study, lost: tuple[tuple[str, int], ...]
) -> None:
    """The numbers are those of a study without it."""
    found = points(fill(study, failed=lost))
    without = found[(found["family"] == "noise") | (found["seed"] != 1)]
    failed, absent = (tradeoff_table(each, AT_94).iloc[1] for each in (found, without))
    assert (failed["n_failed"], failed["n_pairs"], failed["n_seeds"]) == (len(lost), 2, 2)
    for name in ("mse_mean", "mse_ci_low", "difference", "ci_low", "p"):
        assert failed[name] == absent[name]


def test_a_difference_is_read_on_the_seeds_that_both_sides_have(study: Study) -> None:
    """It is that of a study in which the other side never had the lost seed either."""
    found = points(fill(study, failed=(("n2", 1),)))
    partial, shared = (tradeoff_table(each, AT_94) for each in (found, found[found["seed"] != 1]))
    assert partial["n_seeds"].tolist() == [2, 3]
    for name in ("n_pairs", "difference", "ci_low", "p"):
        assert partial[name].iloc[1] == shared[name].iloc[1]
    assert partial["mse_mean"].iloc[1] != shared["mse_mean"].iloc[1]


def test_a_seed_that_failed_elsewhere_still_counts(study: Study) -> None:
    study.add_run("g64", 1, status="failed", reason="diverged")
    study.add_run("g64", 0, top1=0.5)
    for attack in ("decoder", "linear"):
        study.add_attack("g64", 0, attack, "train_data", mse=0.2)
    families = FAMILIES | {"gated": FAMILIES["gated"] | {"g64": {"lambda": 64, "gate": "log"}}}
    table = tradeoff_table(points(fill(study), Sweeps(families)), Sweeps(families, [94.0]))
    assert table[["n_failed", "n_pairs"]].iloc[1].tolist() == [1, 3]


def test_a_failed_attack_is_counted_though_the_run_is_there(study: Study) -> None:
    study.add_run("n3", 0, top1=0.8)
    study.add_attack("n3", 0, status="failed")
    study.add_attack("n3", 0, "linear", "train_data", mse=0.9)  # not known to be the worst case
    families = FAMILIES | {"noise": FAMILIES["noise"] | {"n3": {"noise_std": 0.4}}}
    found = tradeoff_table(points(fill(study), Sweeps(families)), Sweeps(families, [94.0]))
    assert found["n_failed"].tolist() == [1, 0]


def test_a_family_that_failed_altogether_has_no_numbers(study: Study) -> None:
    found = points(fill(study, failed=tuple((d, s) for d in ("g2", "g8") for s in range(3))))
    table = tradeoff_table(found, SWEEPS)
    gated = table[table["family"] == "gated"]
    assert gated["n_failed"].tolist() == [6]
    assert gated[["mse_mean", "difference"]].isna().all(axis=None)
    (panel,) = frontier(found, SWEEPS, "train_data").axes
    assert [text for text in texts(panel) if text] == ["σ 0.1", "σ 0.2"]


def test_a_study_without_a_result_has_a_table_and_a_figure_that_say_so(study: Study) -> None:
    every = tuple((d, s) for d in RESULTS for s in range(3))
    study.add_attack("alone", 0)
    found = points(fill(study, failed=every))
    assert tradeoff_table(found, SWEEPS).empty
    (panel,) = frontier(found, SWEEPS, "train_data").axes
    assert "no defence has a finished result" in texts(panel)


def test_the_figure_shows_every_seed_the_means_and_the_front(study: Study) -> None:
    study.add_run("g4", 0, top1=0.85)  # beaten by g8 in both: a mark, but no part of the line
    study.add_attack("g4", 0, mse=0.05)
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
    assert explained(figure) == ["noise", "gated"]


def swept(folder: Path) -> tuple[Plan[Any], Study]:
    """A study of two sweeps, whose results are made up."""
    raw: dict[str, Any] = {
        "experiment": "synthetic",
        "results": str(folder),
        "data": {"source": "digits"},
        "sweeps": {
            "noise": {"over": {"noise_std": [0.1, 0.2]}},
            "gated": {"surrogate": "gated", "over": {"lambda": [2, 8]}},
        },
        "attacks": {"linear": {}},
        "reference": "gated_lambda2",
        "report": {"match_accuracy": [98.2]},
    }
    plan, study = Plan(parse(raw), stale=True), Study(folder / "synthetic")
    for place, defence in enumerate(plan.study.defences):
        for seed in range(3):
            study.add_run(defence, seed, top1=0.99 - 0.01 * (place % 2) - 0.001 * seed)
            for knowledge in ("train_data", "public_data"):
                study.add_attack(defence, seed, "linear", knowledge, mse=0.01 * (place + 1))
    return plan, study


def test_the_report_of_a_study_with_sweeps_writes_what_the_plan_names(tmp_path: Path) -> None:
    plan, study = swept(tmp_path)
    found = {job.kind: job for job in jobs(plan)}
    tables = found["tables"].outputs
    assert set(rerun_job(found["tables"])) == set(tables)
    *others, tradeoff, readable, paper, _html = tables
    one = tables_of_one(plan, "noise_noise_std0p1")
    assert {path.name for path in rerun_job(one)} == {path.name for path in others}
    table = pd.read_csv(tradeoff)
    assert set(table["knowledge"]) == {"train_data", "public_data"}
    assert set(table["accuracy"]) == {98.2}
    assert {"lambda_mean", "noise_std_mean"} <= set(table.columns)
    compared = pd.read_csv(next(path for path in others if path.name == "comparisons.csv"))
    assert set(compared["reference"]) == {"gated_lambda2"}
    wide, narrow = (path.read_text().splitlines() for path in (readable, paper))
    for knowledge, mse in table.loc[table["family"] == "gated", ["knowledge", "mse_mean"]].values:
        heading = f"## At an accuracy of {table['accuracy'][0]:g} %, {knowledge}"
        row = wide[wide.index(heading) + 5].split(" | ")
        assert row[0] == "| gated"
        assert row[1].startswith(f"{mse:.4f} ± ")
        assert len(row) == len(wide[wide.index(heading) + 2].split(" | ")) == 10
    assert sum(line.startswith("gated & ") and line.count("&") == 6 for line in narrow) == 2
    curves = [path for path in found["figures"].outputs if path.stem.startswith("frontier-")]
    sweeps = Sweeps(plan.study.families())
    drawn = figures(Results(*study.frames(), list(plan.study.defences), None, sweeps))
    assert set(drawn) >= {path.stem for path in curves}
    assert [DRAWINGS[path.stem].title for path in curves[::2]] == [
        "curves of the sweeps, train data",
        "curves of the sweeps, public data",
    ]
