"""The forest plot: the numbers of comparisons.csv, filled where its verdict shows something."""

import pandas as pd
import pytest
from matplotlib.axes import Axes
from reading_figures import texts
from synthetic_study import DEFENCES, Study

from cemlib.report.collect import collect
from cemlib.report.comparisons import comparisons_table
from cemlib.report.forest import forest


def marks(panel: Axes) -> list[tuple[float, float, float, bool]]:
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


@pytest.mark.parametrize("knowledge", ["train_data", "public_data"])
def test_the_marks_are_the_rows_of_the_table(full_study: Study, knowledge: str) -> None:
    runs, attacks = collect(full_study.runs, full_study.attacks)
    table = comparisons_table(runs, attacks, DEFENCES, "gated")
    errors, accuracy = forest(runs, attacks, DEFENCES, "gated", knowledge).axes
    for panel, part, scale in (
        (errors, rows(table, "mse", knowledge), 1),
        (accuracy, rows(table, "top1", ""), 100),
    ):
        expected = part["verdict"].isin(["higher", "lower"])
        found = marks(panel)
        assert [filled for *_, filled in found] == expected.tolist()
        for (mean, low, high, _), row in zip(found, part.itertuples(), strict=True):
            ends = (scale * row.difference, scale * row.ci_low, scale * row.ci_high)
            assert (mean, low, high) == pytest.approx(ends)
    assert [label.get_text() for label in errors.get_yticklabels()] == list(
        rows(table, "mse", knowledge)["defence"]
    )
    assert table["verdict"].nunique() > 1


def test_a_defence_that_failed_and_a_lone_one_are_told(study: Study) -> None:
    study.add_run("noise", 0)
    study.add_attack("noise", 0, "decoder", "train_data")
    alone = forest(*collect(study.runs, study.attacks), ("noise",), None, "train_data")
    assert texts(alone.axes[0]) == ["one defence: nothing to compare it with"]
    study.add_run("wild", 0, status="failed", reason="diverged")
    panel, _ = forest(
        *collect(study.runs, study.attacks), ("noise", "wild"), None, "train_data"
    ).axes
    assert texts(panel) == ["not compared"]
