"""No verdict from an unfinished attack: its numbers are marked wherever they are shown."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure
from reading_figures import marks
from synthetic_study import DEFENCES, Study, change, fill

from cemlib.records.scores import MARK, NOTE
from cemlib.report.at_accuracy import tradeoff_table
from cemlib.report.build import Results, figures, write_tables
from cemlib.report.claims import claims
from cemlib.report.comparisons import comparisons_table
from cemlib.report.frontier import SCORES_OF_POINTS, Sweeps, mean_curve, sweep_points
from cemlib.report.style import save
from cemlib.report.tables import summary_table
from cemlib.report.tradeoff import frontier
from cemlib.report.worst_case import unconverged, worst_case

KEYS = ["defence", "knowledge", "metric"]
PRIVACY = ["mse", "ssim", "psnr", "recon_top1"]
COMPARED = ["mse", "ssim", "recon_top1"]


def interrupt(study: Study, defence: str, seed: int) -> None:
    """Have the decoder with `train_data` on one run end before it had converged."""
    folder = study.root / f"runs/{defence}/seed{seed}/attacks/decoder-train_data"
    change(folder / "metrics.json", converged=False)


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study whose decoder with `train_data` had not converged on one seed of `clustering`."""
    study = fill(Study(tmp_path_factory.mktemp("unfinished") / "synthetic"))
    interrupt(study, "clustering", 0)
    return study


def test_a_difference_that_would_be_higher_is_not_claimed(
    full_study: Study, unfinished: Study
) -> None:
    before, after = (
        comparisons_table(*s.frames(), DEFENCES, None).set_index(KEYS)
        for s in (full_study, unfinished)
    )
    barred = [("clustering", "train_data", metric) for metric in COMPARED]
    assert before.loc[barred[0], "verdict"] == "higher"
    assert after.loc[barred, "verdict"].tolist() == ["unconverged", "", ""]
    assert set(after.loc[barred, "unconverged"]) == {"clustering"}
    rest = after.index.difference(barred)
    assert after.loc[rest, "verdict"].equals(before.loc[rest, "verdict"])
    assert after["p_holm"].equals(before["p_holm"])  # it stays in the family


def test_an_unfinished_reference_leaves_only_accuracies(tmp_path: Path) -> None:
    study = fill(Study(tmp_path / "synthetic"), knowledges=("train_data",))
    interrupt(study, "noise", 0)
    table = comparisons_table(*study.frames(), DEFENCES, None)
    assert set(table.loc[table["metric"] == "mse", "verdict"]) == {"unconverged"}
    assert (table.loc[table["metric"] != "top1", "unconverged"] != "").all()
    assert (table.loc[table["metric"] == "top1", "unconverged"] == "").all()


def test_a_seed_that_is_in_no_pair_bars_nothing(tmp_path: Path) -> None:
    study = fill(Study(tmp_path / "synthetic"), ("noise", "gated"), ("train_data",))
    interrupt(study, "gated", 2)
    study.add_run("noise", 2, status="failed", reason="diverged")
    assert set(comparisons_table(*study.frames(), DEFENCES, None)["unconverged"]) == {""}


@pytest.mark.parametrize("strongest", ["decoder", "linear"])
def test_the_worst_case_is_marked_where_an_attack_that_it_quotes_is(
    study: Study, strongest: str
) -> None:
    """Its identification is of the attack that is recognised most, its errors of the strongest.

    A closed form may be the strongest because the attack that learns has not learned enough.
    """
    best = None if strongest == "linear" else True
    for seed, done in enumerate((False, False, True)):
        for attack, mse, share, converged in (
            (strongest, 0.01, 0.5, best),
            ("gan", 0.02, 0.8, done),
        ):
            scores = {"mse": mse, "recon_top1": share, "converged": converged}
            study.add_attack("noise", seed, attack, "train_data", **scores)
    runs, attacks = study.frames()
    found, late = worst_case(attacks), strongest == "linear"
    late_seeds = [unconverged(found, score).tolist() for score in PRIVACY]
    assert late_seeds == [[late, late, False]] * 3 + [[True, True, False]]
    rows = summary_table(runs, attacks, ["noise"]).set_index("attack")
    counts = rows[["n_unconverged", "n_unconverged_recon"]]
    assert counts.loc["worst_case"].tolist() == [2 * late, 2]
    assert counts.loc["gan"].tolist() == [2, 2]
    assert counts.loc[strongest].tolist() == [0, 0]
    assert not unconverged(runs, "top1").any()


@pytest.fixture(scope="module")
def written(unfinished: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of its tables."""
    folder = tmp_path_factory.mktemp("tables")
    write_tables(Results(*unfinished.frames(), DEFENCES), unfinished.root, folder)
    return folder


def test_every_table_marks_it_and_explains_the_mark(written: Path) -> None:
    text, tex, page = ((written / f"summary.{kind}").read_text() for kind in ("md", "tex", "html"))
    for table in text.split("## ")[1:]:
        rows = [line for line in table.splitlines() if line.startswith("| ")]
        decoded = table.startswith(("Worst case", "Attack: decoder")) and "train_data" in table
        expected = [4 if decoded and row.startswith("| clustering") else 0 for row in rows]
        assert [row.count(MARK) for row in rows] == expected
        assert (NOTE in table) == decoded
    assert tex.count(r"$^\dagger$") == 3 + 1  # without PSNR
    assert page.count(MARK) == 2 * (4 + 1)
    assert page.count(NOTE) == 2
    compared = (written / "comparisons.html").read_text()
    assert compared.count("<td>unconverged</td>") == 1
    assert compared.count(NOTE) == len(COMPARED)
    assert compared.count(MARK) == 2 * len(COMPARED)


def test_claims_draw_no_verdict_from_it(written: Path) -> None:
    lines = (written / "claims.md").read_text().splitlines()
    told = [line for line in lines if "no verdict" in line]
    assert len(told) == 1
    assert told[0].startswith(
        f"- clustering{MARK}: no verdict, because the attack on clustering had not converged ("
    )
    assert "p = " not in told[0]
    assert "p < " not in told[0]


@pytest.fixture(scope="module")
def drawn(unfinished: Study) -> dict[str, Figure]:
    return {n: draw() for n, draw in figures(Results(*unfinished.frames(), DEFENCES)).items()}


def test_every_figure_that_shows_it_marks_it(drawn: dict[str, Figure]) -> None:
    """Figures of a study whose attacks had all converged are without (`test_report_figures`)."""
    without = {name for name in drawn if name.endswith("public_data")}
    assert {name for name, figure in drawn.items() if not marks(figure)} == without


@pytest.mark.parametrize("name", ["overview", "accuracy_mse"])
def test_what_is_marked_is_hollow(drawn: dict[str, Figure], name: str) -> None:
    *_, panel, other = drawn[name].axes
    if name == "accuracy_mse":
        filled = [line.get_markerfacecolor() for line in panel.lines if line.get_marker() == "^"]
        assert filled == ["white"]
    else:
        white = (1.0, 1.0, 1.0)
        hollow = [bar.get_facecolor()[:3] == white for bar in panel.patches]
        assert hollow == [defence == "clustering" for defence in DEFENCES]
        assert not any(bar.get_facecolor()[:3] == white for bar in other.patches)


def test_a_saved_figure_explains_the_mark(drawn: dict[str, Figure], tmp_path: Path) -> None:
    for name, explained in (("overview", True), ("reconstructions-public_data", False)):
        save(drawn[name], tmp_path, name)
        assert any(text.get_text().startswith(NOTE) for text in drawn[name].texts) == explained


LOST = (math.nan, math.nan)  # of a seed that failed
CHANCE = 10.0  # accuracy of a classifier at chance


def points_of(
    late: tuple[str, int], **families: dict[str, list[tuple[float, float]]]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the points of families, whose members have an accuracy and an error per seed.

    And the families. The attack on one member and seed had not converged.
    """
    rows = [
        {"family": family, "knowledge": "train_data", "defence": member, "seed": seed}
        | dict.fromkeys(SCORES_OF_POINTS, error)
        | {"accuracy": accuracy, "unconverged": int((member, seed) == late), "unconverged_recon": 0}
        | {"at_chance": int(accuracy == CHANCE)}
        for family, members in families.items()
        for member, of_seeds in members.items()
        for seed, (accuracy, error) in enumerate(of_seeds)
    ]
    return pd.DataFrame(rows), {name: {key: {} for key in of} for name, of in families.items()}


def late_at_92(unfinished: tuple[str, int]) -> dict[str, Any]:
    """Return the row of `other`, which lost two of four seeds, read at 92 % against `first`.

    On all seeds, and on all but one, the curve of `first` is read between `middle` and `weak`. On
    the two seeds that are left, `middle` has 91 %, so it is read between `strong` and `middle`.
    """
    points, families = points_of(
        unfinished,
        first={
            "strong": [(98.0, 0.1)] * 4,
            "middle": [(91.0, 0.2)] * 2 + [(97.0, 0.2)] * 2,
            "weak": [(90.0, 0.3)] * 4,
        },
        other={
            "mild": [(95.0, 0.3), (94.0, 0.3), LOST, LOST],
            "hard": [(89.0, 0.5), (91.0, 0.5), LOST, LOST],
        },
    )
    found = tradeoff_table(points, Sweeps(families, match_accuracy=[92.0]))
    row: dict[str, Any] = found.set_index("family").loc["other"].to_dict()
    return row | {"n_of_first": found["n_unconverged"].iloc[0]}


def test_a_difference_is_marked_where_the_seeds_of_both_sides_rest_on_it() -> None:
    row = late_at_92(("strong", 0))
    assert (row["n_of_first"], row["unconverged"], row["verdict"]) == (0, "first", "unconverged")


def test_an_unfinished_attack_on_a_seed_of_one_side_bars_no_difference() -> None:
    row = late_at_92(("weak", 3))
    assert (row["n_of_first"], row["unconverged"], row["n_pairs"]) == (1, "", 2)
    assert row["verdict"] == "higher"


def test_a_curve_that_is_read_from_a_classifier_at_chance_has_no_verdict() -> None:
    lost = [(CHANCE, error) for error in (0.067, 0.068, 0.069)]
    points, families = points_of(
        ("", 0),
        noise={"weak": [(90.0, 0.01)] * 3, "strong": [(70.0, 0.015)] * 3},
        other={"mild": [(90.0, 0.01)] * 3, "hard": lost},
    )
    table = tradeoff_table(points, Sweeps(families, match_accuracy=[80.0]))
    assert table["verdict"].tolist() == ["", "at chance"]
    assert table["p_holm"].iloc[1] < 0.05
    assert "no verdict, because it or noise rests on a classifier at chance" in claims(table)


@pytest.mark.parametrize(("unfinished_seed", "count"), [(2, 1), (1, 0)])
def test_sweeps_count_it_where_a_curve_without_one_seed_is_read_from_it(
    unfinished_seed: int, count: int
) -> None:
    """Only without seed 1 is `late` more private than `high`, which is more accurate."""
    values = {
        "high": [(98.0, 0.02), (98.0, 0.05), (98.0, 0.02)],
        "late": [(95.0, 0.06), (95.0, 0.00), (95.0, 0.00)],
        "low": [(90.0, 0.08), (90.0, 0.08), (90.0, 0.09)],
    }
    points, families = points_of(("late", unfinished_seed), f=values)
    assert mean_curve(points).index.tolist() == ["low", "high"]
    found = tradeoff_table(points, Sweeps(families, match_accuracy=[94.0]))
    assert found["n_unconverged"].tolist() == [count]


def test_sweeps_count_it_at_the_accuracies_beside_it(unfinished: Study) -> None:
    families: Any = {
        "noise": {"none": {"noise_std": 0.0}, "slot": {"noise_std": 0.1}},
        "strong": {name: {"lambda": i} for i, name in enumerate(("clustering", "gated"))},
    }
    sweeps = Sweeps(families, match_accuracy=[99.6, 98.8])
    points = sweep_points(*unfinished.frames(), sweeps)
    table = tradeoff_table(points, sweeps).set_index(["knowledge", "accuracy", "family"])
    assert table["n_unconverged"].loc[("train_data", 98.8, "strong")] == 1
    assert not table.xs("public_data")["n_unconverged"].any()
    assert not table.xs("noise", level="family")["n_unconverged"].any()
    late = table["unconverged"] == "strong"
    assert table.index[late].tolist() == [("train_data", 98.8, "strong")]
    assert set(table.loc[late, "verdict"]) == {"unconverged"}
    assert f"strong{MARK}" in marks(frontier(points, sweeps, "train_data"))
    assert not marks(frontier(points, sweeps, "public_data"))


def test_sweeps_count_it_for_the_identified_share_by_itself(study: Study) -> None:
    """The strongest attack has converged; the one whose pictures are recognised has not."""
    for seed in (0, 1):
        study.add_run("noise", seed, top1=0.9)
        found = {"decoder": (0.01, 0.2, True), "perceptual": (0.02, 0.5, seed > 0)}
        for attack, (mse, share, converged) in found.items():
            scores = {"mse": mse, "recon_top1": share, "converged": converged}
            study.add_attack("noise", seed, attack, "train_data", **scores)
    sweeps = Sweeps({"noise": {"noise": {"noise_std": 0.1}}}, match_accuracy=[90.0])
    row = tradeoff_table(sweep_points(*study.frames(), sweeps), sweeps).iloc[0]
    assert (row["recon_top1_mean"], row["n_unconverged"], row["n_unconverged_recon"]) == (0.5, 0, 1)
