"""Worst case, summary, comparisons and their files, by hand on small studies."""

import math
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats
from synthetic_study import DEFENCES, Study

from cemlib.report import TABLES
from cemlib.report.build import Results, write_tables
from cemlib.report.comparisons import comparisons_table
from cemlib.report.statistics import holm
from cemlib.report.tables import runs_table, summary_table
from cemlib.report.worst_case import worst_case


def two_attacks(study: Study) -> Study:
    """The decoder wins at seeds 0 and 1, the mean image at seed 2."""
    errors = {0: (0.010, 0.030), 1: (0.020, 0.040), 2: (0.045, 0.044)}
    for seed, (decoder, mean_image) in errors.items():
        study.add_run("noise", seed, top1=0.90 + seed / 100, leakage_nats=10.0 + seed)
        study.add_attack("noise", seed, mse=decoder, ssim=0.6, psnr=17.0)
        study.add_attack("noise", seed, "mean_image", mse=mean_image, ssim=0.1, psnr=12.0)
    return study


def summary_row(study: Study, attack: str) -> pd.Series:
    table = summary_table(*study.frames(), ["none", "noise", "gated"])
    (chosen,) = table.index[(table["attack"] == attack) & (table["defence"] == "noise")]
    return table.loc[chosen]


def test_worst_case_takes_the_lowest_mse_of_each_seed(study: Study) -> None:
    _, attacks = two_attacks(study).frames()
    found = worst_case(attacks).sort_values("seed")
    assert found["strongest"].tolist() == ["decoder", "decoder", "mean_image"]
    assert found["mse"].tolist() == [0.010, 0.020, 0.044]
    assert found["ssim"].tolist() == [0.6, 0.6, 0.1]  # of the strongest attack, not the highest
    assert set(found["attack"]) == {"worst_case"}


def test_worst_case_is_per_knowledge(study: Study) -> None:
    study.add_attack("noise", 0, mse=0.01)
    study.add_attack("noise", 0, "decoder", "public_data", mse=0.02)
    study.add_attack("noise", 0, "linear", "public_data", mse=0.015)
    found = worst_case(study.frames()[1]).set_index("knowledge")
    assert found["mse"].to_dict() == {"train_data": 0.01, "public_data": 0.015}
    assert found["strongest"].to_dict() == {"train_data": "decoder", "public_data": "linear"}


def test_worst_case_is_unknown_where_an_attack_failed_or_is_absent(study: Study) -> None:
    for seed in range(3):
        study.add_attack("noise", seed, "mean_image", "train_data", mse=0.05)
    study.add_attack("noise", 0, mse=0.01)
    study.add_attack("noise", 1, status="failed", reason="nan")
    found = worst_case(study.frames()[1]).set_index("seed")
    assert found["status"].to_dict() == {0: "ok", 1: "failed", 2: "failed"}
    assert found.loc[1, "reason"] == "no result of decoder"
    assert math.isnan(found.loc[1, "mse"])


def test_worst_case_is_unknown_where_an_attack_is_absent_on_all_seeds(study: Study) -> None:
    """As long as another defence has it."""
    for seed in range(2):
        study.add_attack("noise", seed, mse=0.01)
        study.add_attack("noise", seed, "linear", mse=0.02)
        study.add_attack("gated", seed, "linear", mse=0.03)
    found = worst_case(study.frames()[1]).set_index("defence")["status"]
    assert [*found["noise"], *found["gated"]] == ["ok"] * 2 + ["failed"] * 2


def test_failed_jobs_are_counted_and_leave_the_means(study: Study) -> None:
    two_attacks(study)
    study.add_run("noise", 3, status="failed", reason="diverged")
    study.add_run("noise", 4, top1=0.5)
    study.add_attack("noise", 4, status="failed")
    study.add_attack("noise", 4, "mean_image", "train_data", mse=0.05)
    decoder, ceiling = summary_row(study, "decoder"), summary_row(study, "mean_image")
    assert (decoder["n_seeds"], decoder["n_failed"], decoder["n_failed_runs"]) == (5, 2, 1)
    assert (ceiling["n_failed"], ceiling["n_failed_runs"]) == (1, 1)
    assert decoder["mse_mean"] == pytest.approx(0.025)
    assert decoder["top1_mean"] == pytest.approx((0.90 + 0.91 + 0.92 + 0.5) / 4)
    assert decoder["leakage_nats_mean"] == pytest.approx((10.0 + 11.0 + 12.0 + 12.5) / 4)
    assert summary_row(study, "worst_case")["n_failed"] == 2


def test_rows_follow_the_order_of_the_study(full_study: Study) -> None:
    order = list(reversed(DEFENCES))
    runs, attacks = full_study.frames()
    summary = summary_table(runs, attacks, order)
    assert list(summary["defence"].unique()) == order
    assert summary["attack"].tolist()[:4] == ["decoder", "linear", "mean_image", "worst_case"]
    assert len(summary) == 5 * 2 * 4
    table = runs_table(runs, attacks, order, full_study.root)
    assert list(table["defence"].unique()) == order
    assert len(table) == 5 * 3 * 2 * 3


def test_attacks_without_their_runs_have_rows_without_an_accuracy(full_study: Study) -> None:
    runs, attacks = full_study.frames()
    table = summary_table(runs[runs["defence"] != "noise"], attacks, DEFENCES)
    whole = summary_table(runs, attacks, DEFENCES)
    assert table["top1_mean"].isna().equals(table["defence"] == "noise")
    assert table["mse_mean"].equals(whole["mse_mean"])


def test_results_outside_the_order_are_refused(study: Study) -> None:
    runs, attacks = two_attacks(study).frames()
    with pytest.raises(ValueError, match=r"results of noise were given.*only none, gated"):
        summary_table(runs, attacks, ["none", "gated"])


def test_runs_table_shows_failures_with_reason_and_relative_folders(study: Study) -> None:
    two_attacks(study).add_run("gated", 0, status="failed", reason="loss is nan at epoch 3")
    study.add_run("none", 0)
    runs, attacks = study.frames()
    table = runs_table(runs, attacks, ["none", "noise", "gated"], study.root)
    unattacked, failed = table.iloc[0], table.iloc[-1]
    assert (unattacked["attack"], unattacked["status"]) == ("", "ok")
    assert unattacked["folder"] == "runs/none/seed0"
    assert (failed["status"], failed["reason"]) == ("failed", "loss is nan at epoch 3")
    assert table["folder"][1] == "runs/noise/seed0/attacks/decoder-train_data"


def compared(study: Study, reference: str | None = None) -> pd.DataFrame:
    order = ["none", "noise", "gated"]
    table = comparisons_table(*study.frames(), order, reference)
    return table.set_index(["defence", "knowledge", "metric"])


def three_defences(study: Study) -> Study:
    """Noise at four seeds, gated at three of them, none at all four."""
    noise, gated = [0.010, 0.012, 0.011, 0.013], [0.020, 0.023, 0.021]
    none = [0.0100, 0.0121, 0.0108, 0.0131]
    for defence, values in (("none", none), ("noise", noise), ("gated", gated)):
        for seed, error in enumerate(values):
            study.add_run(defence, seed, top1=0.9 - error)
            study.add_attack(defence, seed, mse=error)
    return study


def test_comparisons_pair_the_seeds_that_both_have(study: Study) -> None:
    table = compared(three_defences(study))
    expected = stats.ttest_rel([0.020, 0.023, 0.021], [0.010, 0.012, 0.011])
    row = table.loc[("gated", "train_data", "mse")]
    assert row["n_pairs"] == 3
    assert row["difference"] == pytest.approx(0.031 / 3)
    assert row["p"] == pytest.approx(expected.pvalue)
    assert row["p_holm"] == pytest.approx(2 * expected.pvalue)  # two defences, one knowledge
    assert row["verdict"] == "higher"
    assert table.loc[("none", "train_data", "mse"), "verdict"] == "no difference shown"
    assert set(table["reference"]) == {"noise"}
    assert "noise" not in table.index.get_level_values("defence")


@pytest.mark.parametrize(
    ("defence", "seed", "converged", "verdict"),
    [
        ("gated", 2, None, "at chance"),
        ("noise", 1, None, "at chance"),
        ("noise", 3, None, "higher"),  # of no pair
        ("gated", 2, False, "unconverged"),  # told before chance
    ],
)
def test_a_classifier_at_chance_in_a_pair_bars_the_verdict(
    study: Study, defence: str, seed: int, converged: bool | None, verdict: str
) -> None:
    before = compared(three_defences(study))
    study.add_run(defence, seed, top1=0.105)
    study.add_attack("gated", 0, mse=0.020, converged=converged)
    after = compared(study)
    assert after.loc[("gated", "train_data", "mse"), "verdict"] == verdict
    assert after["p_holm"].equals(before["p_holm"])  # it stays in the family


def test_only_the_error_is_tested_corrected_over_defences_and_knowledges(
    full_study: Study,
) -> None:
    runs, attacks = full_study.frames()
    table = comparisons_table(runs, attacks, DEFENCES, None)
    assert set(table["metric"]) == {"top1", "mse", "ssim", "recon_top1"}
    tested = table[table["metric"] == "mse"]
    assert len(tested) == 4 * 2
    assert tested["p_holm"].tolist() == holm(tested["p"].tolist())
    shown = tested["p_holm"] < 0.05
    assert (tested["verdict"].isin(["higher", "lower"]) == shown).all()
    others = table.drop(tested.index)
    assert others[["p", "p_holm"]].isna().all(axis=None)
    assert set(others["verdict"]) == {""}
    assert others[["difference", "ci_low", "ci_high"]].notna().all(axis=None)


def test_every_row_says_on_how_many_images_it_rests(study: Study) -> None:
    for defence in ("none", "noise"):
        for seed, images in enumerate((200, 180)):
            study.add_attack(defence, seed, n_images=images)
    runs, attacks = study.frames()
    assert summary_table(runs, attacks, ["none", "noise"])["n_images"].tolist() == [180] * 4
    images = comparisons_table(runs, attacks, ["none", "noise"], None).set_index("metric")
    assert images.loc[["mse", "ssim"], "n_images"].tolist() == [180, 180]


def test_the_images_of_a_bound_are_the_fewest_of_any_run(study: Study) -> None:
    for seed, images in enumerate((640, 500, 700)):
        study.add_run("noise", seed, leakage_images=images)
        study.add_attack("noise", seed)
    assert set(summary_table(*study.frames(), ["noise"])["leakage_images"]) == {500}


def test_comparisons_with_another_reference(study: Study) -> None:
    row = compared(three_defences(study), "gated").loc[("noise", "train_data", "mse")]
    assert (row["reference"], row["verdict"]) == ("gated", "lower")
    with pytest.raises(ValueError, match="reference 'slot' has no results; there are none, noise"):
        compared(study, "slot")


def test_without_noise_the_first_defence_is_the_reference(study: Study) -> None:
    for defence in ("none", "gated"):
        study.add_attack(defence, 0)
    table = compared(study)
    assert set(table["reference"]) == {"none"}
    assert table.loc[("gated", "train_data", "mse"), "verdict"] == ""  # one pair
    assert table["p"].isna().all()


def test_written_tables_are_complete_and_the_same_each_time(
    full_study: Study, tmp_path: Path
) -> None:
    results = Results(*full_study.frames(), DEFENCES)
    paths = write_tables(results, full_study.root, tmp_path)
    assert [path.name for path in paths] == list(TABLES)
    first = [path.read_bytes() for path in paths]
    again = write_tables(Results(*full_study.frames(), DEFENCES), full_study.root, tmp_path)
    assert [path.read_bytes() for path in again] == first
    summary = pd.read_csv(tmp_path / "summary.csv")
    for score in ("top1", "mse", "ssim", "psnr", "leakage_nats"):
        assert {f"{score}_mean", f"{score}_ci_low", f"{score}_ci_high"} <= set(summary.columns)
    unbounded = summary.loc[summary["defence"] == "none", "leakage_nats_mean"]
    assert unbounded.tolist() == [math.inf] * 8
    runs = pd.read_csv(tmp_path / "runs.csv")
    assert runs["n_images"].tolist() == [200] * len(runs)
    assert str(full_study.root) not in (tmp_path / "runs.csv").read_text()
