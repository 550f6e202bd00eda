"""Accuracy against worst-case MSE along each sweep: the curves that equal strengths hide."""

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cemlib.marks import marked
from cemlib.report.frontier import front
from cemlib.report.frontier_tables import targets
from cemlib.report.statistics import mean_interval
from cemlib.report.style import Look, legend, looks, new_figure, readable, remark, settings
from cemlib.report.sweeps import Settings, Sweeps
from cemlib.report.tradeoff import MOST_LABELS, draw_point, place_labels
from cemlib.scores import SCORES

_LEGEND_COLUMNS = 4
_SYMBOLS = {"lambda": "λ", "noise_std": "σ"}


def frontier(points: pd.DataFrame, sweeps: Sweeps, knowledge: str) -> Figure:
    """Every seed's points, their means with intervals, and a line through the efficient means.

    Args:
        points: as `sweep_points` returns them.
        sweeps: of the study.
        knowledge: of the attacker.
    """
    style = looks(list(sweeps.families))
    rows = points[points["knowledge"] == knowledge]
    labelled = sum(map(len, sweeps.families.values())) <= MOST_LABELS
    with settings():
        figure, (panel,) = new_figure(4.2 + 0.19 * math.ceil(len(style) / _LEGEND_COLUMNS))
        panel.set(xlabel="test accuracy [%]", ylabel=SCORES["mse"].axis)
        panel.set_title(f"attacker has {readable(knowledge)}")
        if not rows["mse"].notna().any():
            remark(panel, "no defence has a finished result")
        for accuracy in targets(rows, sweeps):
            panel.axvline(accuracy, color="#777777", linestyle=":", linewidth=0.9, zorder=0)
        for name, look in style.items():
            names = {n: _label(s) if labelled else "" for n, s in sweeps.families[name].items()}
            _family(panel, rows[rows["family"] == name], look, names)
        place_labels(figure, [panel])
        late = rows.loc[rows["unconverged"] > 0, "family"].tolist()
        styles = {marked(readable(n), n in late): look for n, look in style.items()}
        legend(figure, styles, _LEGEND_COLUMNS)
    return figure


def _family(panel: Axes, rows: pd.DataFrame, look: Look, labels: Mapping[str, str]) -> None:
    for late, some in rows.groupby(rows["unconverged"] > 0):
        panel.plot(
            some["accuracy"],
            some["mse"],
            look.marker,
            color=look.colour,
            alpha=0.45,
            markersize=4,
            markerfacecolor="none" if late else look.colour,
            markeredgewidth=0.8 if late else 0,
        )
    means = []
    for name, label in labels.items():
        member = rows[rows["defence"] == name].dropna(subset=["accuracy", "mse"])
        x, y = (mean_interval(member[column].tolist()) for column in ("accuracy", "mse"))
        if x.n:
            draw_point(panel, readable(label), look, x, y, hollow=bool(member["unconverged"].any()))
            means.append((x.mean, y.mean))
    efficient = [means[i] for i in front(means)]
    panel.plot([x for x, _ in efficient], [y for _, y in efficient], color=look.colour)


def _label(strengths: Settings) -> str:
    return ", ".join(f"{_SYMBOLS.get(key, readable(key))} {v}" for key, v in strengths.items())
