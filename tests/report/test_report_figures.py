"""Figures are what the files say; every one is labelled, written and repeatable."""

import math
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from PIL import Image
from reading_figures import explained, labelled, marks, texts
from synthetic_study import DEFENCES, KNOWLEDGES, Study

from cemlib.report import OF_RUNS, WHOLE
from cemlib.report import figures as table
from cemlib.report.bars import forest, overview
from cemlib.report.build import Results, figures
from cemlib.report.comparisons import comparisons_table
from cemlib.report.style import looks, save, significant
from cemlib.report.tradeoff import tradeoff
from cemlib.study.job import FIGURE_FORMATS

PER_KNOWLEDGE = ("reconstructions", "comparisons")
DRAWN = {
    WHOLE: {"accuracy_mse", "accuracy_ssim", "overview", "attack_curves"}
    | {f"{name}-{knowledge}" for name in PER_KNOWLEDGE for knowledge in KNOWLEDGES},
    OF_RUNS: {"training_curves", "surrogate_curves"},
}


def results(study: Study) -> Results:
    return Results(*study.frames(), DEFENCES, surrogates=DEFENCES[2:])


def test_every_drawing_has_a_title_of_its_own() -> None:
    assert len({each.title for each in table.DRAWINGS.values()}) == len(table.DRAWINGS)
    assert not any("{" in each.title for each in table.DRAWINGS.values())


@pytest.mark.parametrize("part", [WHOLE, OF_RUNS])
def test_every_figure_is_labelled(full_study: Study, part: str) -> None:
    drawn = figures(results(full_study), part)
    assert set(drawn) == DRAWN[part]
    for name, draw in drawn.items():
        figure, held = draw(), BytesIO()
        assert name.startswith("reconstructions") or labelled(figure), name
        assert not marks(figure), name  # every attack had converged
        figure.savefig(held, dpi=40)
        assert np.asarray(Image.open(held).convert("L")).std() > 5, name


def test_a_figure_is_written_in_every_format_as_the_same_file(
    tmp_path: Path, full_study: Study
) -> None:
    before = dict(mpl.rcParams)
    pairs = [
        save(figures(results(full_study))["overview"](), tmp_path / folder, "overview")
        for folder in ("a", "b")
    ]
    assert dict(mpl.rcParams) == before
    assert [path.name for path in pairs[0]] == [f"overview.{kind}" for kind in FIGURE_FORMATS]
    for first, second in zip(*pairs, strict=True):
        assert first.read_bytes() == second.read_bytes()
        assert b"Matplotlib" not in first.read_bytes()
    assert pairs[0][1].read_bytes().startswith(b"%PDF")
    with Image.open(pairs[0][0]) as image:
        assert image.width > 1600  # 300 dpi


def test_bars_are_the_means_from_zero(full_study: Study) -> None:
    runs, attacks = full_study.frames()
    accuracy, *others = overview(runs, attacks, DEFENCES).axes
    expected = [100 * runs.loc[runs["defence"] == name, "top1"].mean() for name in DEFENCES]
    assert [bar.get_width() for bar in accuracy.patches] == pytest.approx(expected)
    assert texts(accuracy) == [f"{mean:.1f}" for mean in expected]
    for panel, knowledge in zip(others, KNOWLEDGES, strict=True):
        decoder = attacks[(attacks["attack"] == "decoder") & (attacks["knowledge"] == knowledge)]
        expected = [decoder.loc[decoder["defence"] == name, "mse"].mean() for name in DEFENCES]
        assert [bar.get_width() for bar in panel.patches] == pytest.approx(expected)
        assert panel.get_title() == "mean image: 0.0466"
        assert panel.get_xlim()[0] == 0
        assert knowledge.replace("_", " ") in panel.get_xlabel()
    assert accuracy.get_xlim()[0] == 0


def test_bars_of_what_failed_say_so(study: Study) -> None:
    for defence, top1, mse in (("none", 0.9, 0.01), ("noise", 0.8, 0.02)):
        study.add_run(defence, 0, top1=top1)
        study.add_attack(defence, 0, mse=mse)
    for defence, seed in (("noise", 1), ("gated", 0)):
        study.add_run(defence, seed, status="failed", reason="diverged")
    accuracy, error = overview(*study.frames(), DEFENCES).axes
    part, whole = "failed (1 of 2)", "failed (1 of 1)"
    assert texts(accuracy) == ["90.0", f"80.0, {part}", whole]
    assert texts(error) == ["0.0100", f"0.0200, {part}", whole]


@pytest.mark.parametrize("score", ["mse", "ssim"])
def test_the_tradeoff_has_a_point_with_intervals_per_defence(full_study: Study, score: str) -> None:
    runs, attacks = full_study.frames()
    figure = tradeoff(runs, attacks, DEFENCES, score)
    assert explained(figure) == list(DEFENCES)
    for panel, knowledge in zip(figure.axes, KNOWLEDGES, strict=True):
        decoder = attacks[(attacks["attack"] == "decoder") & (attacks["knowledge"] == knowledge)]
        for container, name in zip(panel.containers, DEFENCES, strict=True):
            (x,), (y,) = container.lines[0].get_data()
            assert x == pytest.approx(100 * runs.loc[runs["defence"] == name, "top1"].mean())
            assert y == pytest.approx(decoder.loc[decoder["defence"] == name, score].mean())


def whiskers(panel: Axes) -> list[tuple[float, float, float, bool]]:
    """Mean, both ends of the interval, and whether it is filled, of every row from above."""
    found = []
    for container in panel.containers:
        line, _, (bars,) = container.lines
        (low, _), (high, _) = bars.get_segments()[0]
        filled = line.get_markerfacecolor() != "white"
        found.append((float(line.get_xdata()[0]), float(low), float(high), filled))
    return found


def rows(table: pd.DataFrame, metric: str, knowledge: str) -> pd.DataFrame:
    return table[(table["metric"] == metric) & (table["knowledge"] == knowledge)]


@pytest.mark.parametrize("knowledge", KNOWLEDGES)
def test_the_forest_is_the_table_filled_where_a_difference_is_shown(
    full_study: Study, knowledge: str
) -> None:
    compared = comparisons_table(*full_study.frames(), DEFENCES, "gated")
    errors, accuracy = forest(compared, DEFENCES, knowledge).axes
    for panel, part, scale in (
        (errors, rows(compared, "mse", knowledge), 1),
        (accuracy, rows(compared, "top1", ""), 100),
    ):
        found = whiskers(panel)
        shown = part["verdict"].isin(["higher", "lower"])
        assert [filled for *_, filled in found] == shown.tolist()
        for (mean, low, high, _), row in zip(found, part.itertuples(), strict=True):
            ends = (scale * row.difference, scale * row.ci_low, scale * row.ci_high)
            assert (mean, low, high) == pytest.approx(ends)
    names = [label.get_text() for label in errors.get_yticklabels()]
    assert names == list(rows(compared, "mse", knowledge)["defence"])
    assert compared["verdict"].nunique() > 1


def test_a_defence_that_failed_and_a_lone_one_are_told(study: Study) -> None:
    study.add_attack("noise", 0)
    alone, pair = ("noise",), ("noise", "wild")
    found = comparisons_table(*study.frames(), alone, None)
    panel, _ = forest(found, alone, "train_data").axes
    assert texts(panel) == ["one defence: nothing to compare it with"]
    study.add_run("wild", 0, status="failed", reason="diverged")
    found = comparisons_table(*study.frames(), pair, None)
    panel, _ = forest(found, pair, "train_data").axes
    assert texts(panel) == ["not compared"]


def test_a_defence_keeps_its_look_and_differs_without_colour() -> None:
    style = looks([f"d{i}" for i in range(56)])
    assert len(set(style.values())) == 56
    in_grey = {(look.marker, look.hatch) for look in list(style.values())[:8]}
    assert len(in_grey) == 8


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0012345, "0.00123"), (0.0466, "0.0466"), (29.97, "30.0"), (0.0, "0"), (math.inf, "∞")],
)
def test_significant_digits(value: float, expected: str) -> None:
    assert significant(value) == expected
