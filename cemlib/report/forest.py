"""Differences to the reference at a glance: a row per defence, filled where one is shown."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cemlib.marks import marked
from cemlib.report.claims import is_shown, is_unconverged
from cemlib.report.comparisons import comparisons_table
from cemlib.report.style import Look, looks, new_figure, readable, remark, settings
from cemlib.report.tables import present, records
from cemlib.scores import SCORES


def forest(
    runs: pd.DataFrame,
    attacks: pd.DataFrame,
    defences: Sequence[str],
    reference: str | None,
    knowledge: str,
) -> Figure:
    """Paired differences of worst-case MSE and accuracy, with their 95 % intervals over seeds.

    Args:
        runs: as `collect` returns them.
        attacks: likewise, with every knowledge: the correction is over the whole study.
        defences: order of the rows.
        reference: the defence to compare with (see `comparisons_table`).
        knowledge: what the attacker has.

    Raises:
        ValueError: if the reference has no result.
    """
    table = comparisons_table(runs, attacks, defences, reference)
    styles = looks(present(runs, defences))
    errors = table[(table["metric"] == "mse") & (table["knowledge"] == knowledge)]
    accuracies = table[table["metric"] == "top1"]
    with settings():
        figure, panels = new_figure(1.2 + 0.32 * max(len(errors), 2), columns=2)
        for panel, rows in zip(panels, (errors, accuracies), strict=True):
            _differences(panel, rows, styles)
        panels[1].tick_params(labelleft=False)
        figure.suptitle(_title(table, knowledge), fontsize=9)
    return figure


def _title(table: pd.DataFrame, knowledge: str) -> str:
    if table.empty:
        return f"attacker has {readable(knowledge)}"
    named = readable(table["reference"].iloc[0])
    return (
        f"difference to {named}, attacker has {readable(knowledge)};"
        " filled: shown after Holm's correction over the study"
    )


def _differences(panel: Axes, rows: pd.DataFrame, styles: dict[str, Look]) -> None:
    if rows.empty:
        remark(panel, "one defence: nothing to compare it with")
        return
    score = SCORES[rows["metric"].iloc[0]]
    panel.axvline(0, color="black", linewidth=0.8, linestyle=(0, (4, 3)))
    for place, row in enumerate(records(rows)):
        _row(panel, place, row, score.scale, styles[row["defence"]])
    names = [marked(readable(row["defence"]), is_unconverged(row)) for row in records(rows)]
    panel.set_yticks(range(len(rows)), names)
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.grid(axis="y", visible=False)
    panel.set_xlabel(f"{score.difference}\n({score.side})")


def _row(panel: Axes, place: int, row: dict[str, Any], scale: int, look: Look) -> None:
    mean, low, high = (scale * row[key] for key in ("difference", "ci_low", "ci_high"))
    if not math.isfinite(mean):
        panel.annotate("not compared", (0, place), ha="center", va="bottom", fontsize=6)
        return
    panel.errorbar(
        mean,
        place,
        xerr=[[mean - low], [high - mean]],
        fmt=look.marker,
        color=look.colour,
        mfc=look.colour if is_shown(row) else "white",
        capsize=3,
        linewidth=1.2,
    )
