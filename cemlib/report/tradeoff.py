"""Draw accuracy against privacy: a point per defence, and the curves of sweeps."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cemlib.records.scores import SCORES, marked
from cemlib.report.frontier import Sweeps, mean_curve, symbols, targets
from cemlib.report.statistics import Interval, mean_interval
from cemlib.report.style import Look, explain_empty, legend, looks, new_figure, readable
from cemlib.report.tables import counted, present
from cemlib.report.worst_case import unconverged, worst_case

_MOST_LABELS = 12  # more labels and intervals would cover each other


def tradeoff(
    runs: pd.DataFrame, attacks: pd.DataFrame, defences: Sequence[str], score: str
) -> Figure:
    """Draw test accuracy against a score of the worst case, one panel per attacker knowledge."""
    style, strongest = looks(present(runs, defences)), worst_case(attacks)
    knowledges = list(attacks["knowledge"].unique())
    figure, panels = new_figure(3.4, len(knowledges), legend_of=style, share_y=True)
    for panel, knowledge in zip(panels, knowledges, strict=True):
        rows = strongest[strongest["knowledge"] == knowledge]
        _points(panel, style, runs, rows, score)
        panel.set(title=_title(rows, knowledge), xlabel="test accuracy [%]")
    panels[0].set_ylabel(SCORES[score].axis)
    lowest = min(panel.dataLim.y0 for panel in panels)
    panels[0].set_ylim(bottom=max(panels[0].get_ylim()[0], min(0, lowest)))
    legend(figure, style, strongest.loc[unconverged(strongest, score), "defence"].tolist())
    return figure


def frontier(points: pd.DataFrame, sweeps: Sweeps, knowledge: str) -> Figure:
    """Draw every seed's points, their means, and a line through the efficient ones."""
    style = looks(list(sweeps.families))
    rows = points[points["knowledge"] == knowledge]
    labelled = sum(map(len, sweeps.families.values())) <= _MOST_LABELS
    figure, (panel,) = new_figure(4.2, legend_of=style)
    panel.set(xlabel="test accuracy [%]", ylabel=SCORES["mse"].axis)
    panel.set_title(f"attacker has {readable(knowledge)}")
    if not rows["mse"].notna().any():
        explain_empty(panel, "no defence has a finished result")
    for accuracy in targets(rows, sweeps):
        panel.axvline(accuracy, color="#777777", linestyle=":", linewidth=0.9, zorder=0)
    for name, look in style.items():
        names = {n: symbols(s) if labelled else "" for n, s in sweeps.families[name].items()}
        _family(panel, rows[rows["family"] == name], look, names)
    legend(figure, style, rows.loc[rows["unconverged"] > 0, "family"].tolist())
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
    for name, label in labels.items():
        member = rows[rows["defence"] == name].dropna(subset=["accuracy", "mse"])
        x, y = (mean_interval(member[column].tolist()) for column in ("accuracy", "mse"))
        if x.n:
            late = bool((member["unconverged"] > 0).any())
            _draw_point(panel, look, x, y, hollow=late, arms=bool(label))
            place: Any = {"xytext": (8, 6), "textcoords": "offset points", "fontsize": 8}
            panel.annotate(marked(label, late and bool(label)), (x.mean, y.mean), **place)
    curve = mean_curve(rows)
    panel.plot(curve["accuracy"], curve["mse"], color=look.colour)


def _title(rows: pd.DataFrame, knowledge: str) -> str:
    """Return the attacker's knowledge, and how often each attack was the strongest."""
    names = readable(counted(rows["strongest"])) or "unknown"
    unbroken = names.replace(" (", "\N{NO-BREAK SPACE}(")
    lines = textwrap.wrap(f"strongest: {unbroken}", 50)
    return "\n".join([f"attacker has {readable(knowledge)}", *lines])


def _points(
    panel: Axes, style: Mapping[str, Look], runs: pd.DataFrame, rows: pd.DataFrame, score: str
) -> None:
    late = {*rows.loc[unconverged(rows, score), "defence"]}
    for name, look in style.items():
        x = mean_interval((100 * runs.loc[runs["defence"] == name, "top1"]).tolist())
        y = mean_interval(rows.loc[rows["defence"] == name, score].tolist())
        if math.isfinite(x.mean) and math.isfinite(y.mean):
            _draw_point(panel, look, x, y, hollow=name in late)
    if not panel.containers:
        explain_empty(panel, "no defence has a finished result")
    panel.margins(0.1)
    panel.locator_params(axis="x", nbins=5)


def _draw_point(
    panel: Axes, look: Look, x: Interval, y: Interval, *, hollow: bool, arms: bool = True
) -> None:
    """Draw a mean with its intervals; the marker is hollow if the attack had not converged."""
    panel.errorbar(
        x.mean,
        y.mean,
        xerr=x.arms if arms else None,
        yerr=y.arms if arms else None,
        fmt=look.marker,
        color=look.colour,
        markersize=7,
        markerfacecolor="white" if hollow else look.colour,
        markeredgecolor=look.colour if hollow else "black",
        markeredgewidth=1.2 if hollow else 0.5,
        elinewidth=1.1,
        capsize=2.5,
    )
