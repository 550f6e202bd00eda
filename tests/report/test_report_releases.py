"""Attacks that see several releases: worst cases by hand, their tables, and their figure."""

import pandas as pd
import pytest
from reading_figures import labelled, lines, texts
from scipy import stats
from synthetic_study import Study

from cemlib.report.attacks import releases
from cemlib.report.build import Results, figures
from cemlib.report.comparisons import comparisons_table
from cemlib.report.style import looks
from cemlib.report.tables import summary_table
from cemlib.report.texts import paper_document, summary_document
from cemlib.report.worst_case import worst_case
from cemlib.report.writer import latex, markdown

ORDER = ("none", "noise")
# attack, releases, and MSE on the two seeds of `none` (no noise to average away) and of `noise`
ATTACKS = (
    ("decoder", 1, (0.010, 0.012), (0.020, 0.030)),
    ("linear", 1, (0.020, 0.011), (0.025, 0.040)),
    ("decoder_4", 4, (0.011, 0.013), (0.015, 0.035)),
    ("decoder_16", 16, (0.015, 0.010), (0.016, 0.006)),
)


def several_releases(study: Study) -> Study:
    for seed in (0, 1):
        for defence in ORDER:
            for attack, queries, *errors in ATTACKS:
                mse = errors[ORDER.index(defence)][seed]
                study.add_attack(defence, seed, attack, "train_data", mse=mse, queries=queries)
    return study


def summary(study: Study) -> pd.DataFrame:
    return summary_table(*study.frames(), ORDER)


def worst(study: Study, queries: int) -> pd.DataFrame:
    found = worst_case(study.frames()[1], queries)
    return found[found["defence"] == "noise"].set_index("seed")


def test_a_failed_attack_on_many_releases_leaves_the_worst_case_on_few_known(study: Study) -> None:
    study.add_attack("noise", 0, mse=0.02)
    study.add_attack("noise", 0, "decoder_4", "train_data", status="failed", queries=4)
    assert worst(study, 1).loc[0, ["status", "mse"]].tolist() == ["ok", 0.02]
    many = worst(study, 4).loc[0]
    assert many[["attack", "status", "queries"]].tolist() == ["worst_case_4", "failed", 4]
    assert many["reason"] == "no result of decoder_4"


def test_the_summary_has_a_worst_case_for_each_number_of_releases(study: Study) -> None:
    table = summary(several_releases(study))
    rows = table[table["defence"] == "noise"].set_index("attack")
    names = [name for name, *_ in ATTACKS]
    assert rows.index.tolist() == [*names, "worst_case", "worst_case_4", "worst_case_16"]
    assert rows["queries"].tolist() == [1, 1, 4, 16, 1, 4, 16]
    assert rows["mse_mean"].tolist()[4:] == pytest.approx([0.025, 0.0225, 0.0105])
    assert rows["strongest"].tolist()[4:] == [
        "decoder",
        "decoder_4 (1), decoder (1)",
        "decoder_4 (1), decoder_16 (1)",
    ]


def test_comparisons_are_of_one_release(study: Study) -> None:
    several_releases(study)
    table = comparisons_table(*study.frames(), ORDER, "noise")
    assert table["metric"].tolist() == ["top1", "mse", "ssim", "recon_top1"]
    assert table.loc[1, "difference"] == pytest.approx((0.010 - 0.020 + 0.011 - 0.030) / 2)
    for defence, shares in (("none", (0.9, 0.8)), ("noise", (0.5, 0.6))):
        for seed, share in enumerate(shares):
            changes = {"mse": 0.001, "recon_top1": share}
            study.add_attack(defence, seed, "perceptual", "train_data", **changes)
    table = comparisons_table(*study.frames(), ORDER, "noise")
    row = table[table["metric"] == "recon_top1"].iloc[0]
    low, high = stats.ttest_rel((0.9, 0.8), (0.5, 0.6)).confidence_interval()
    assert [row[key] for key in ("difference", "ci_low", "ci_high")] == pytest.approx(
        [0.3, low, high]
    )


def test_the_report_tabulates_the_worst_case_against_the_releases(study: Study) -> None:
    table = summary(several_releases(study))
    text = markdown(summary_document(table))
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(headings) == 2 + len(ATTACKS)
    assert headings[1].startswith("## Worst case against the number of releases: MSE ↑")
    section = text.split("## ")[2].splitlines()
    assert section[2] == "| defence | n = 1, train_data | n = 4, train_data | n = 16, train_data |"
    means = [[cell.split(" ±")[0] for cell in row.split(" | ")[1:]] for row in section[4:6]]
    assert means == [["0.0105", "0.0105", "0.0100"], ["0.0250", "0.0225", "0.0105"]]
    assert text.split("## ")[1].splitlines()[4].endswith(" | decoder (1), linear (1) |")
    assert "releases" not in latex(paper_document(table))


def test_the_figure_has_the_mean_of_every_worst_case(study: Study) -> None:
    figure = figures(Results(*several_releases(study).frames(), ORDER))["releases"]()
    (panel,) = figure.axes
    expected = {"none": [0.0105, 0.0105, 0.010], "noise": [0.025, 0.0225, 0.0105]}
    for name, look in looks(ORDER).items():
        drawn = next(line for line in lines(panel, look.colour) if len(line) == 3)
        assert drawn.tolist() == pytest.approx(expected[name])
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in panel.get_xticklabels()] == ["1", "4", "16"]
    assert labelled(figure)


def test_the_figure_of_failed_attacks_says_so(study: Study) -> None:
    study.add_attack("noise", 0, status="failed")
    study.add_attack("noise", 0, "decoder_4", "train_data", status="failed", queries=4)
    (panel,) = releases(study.frames()[1], ORDER).axes
    assert texts(panel) == ["no defence has a finished result"]
