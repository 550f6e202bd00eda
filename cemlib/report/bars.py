"""Bars per defence with 95 % intervals: accuracy, worst-case error, PSNR and identification."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cemlib.marks import marked
from cemlib.report.statistics import Interval, mean_interval
from cemlib.report.style import looks, new_figure, readable, settings, significant
from cemlib.report.tables import present
from cemlib.report.verdicts import unconverged
from cemlib.report.worst_case import worst_case
from cemlib.scores import IDENTIFICATION, SCORES

CEILING = "mean_image"  # the attack that uses nothing of what is released
_JUDGE = "judge_top1"
_CLEAR: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.4}


def accuracy(runs: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """Test accuracy: bars from zero, and beside them the same values spread out, seed by seed."""
    names = present(runs, defences)
    values = {name: _percent(runs, name) for name in names}
    with settings():
        figure, (whole, close) = new_figure(_height(names), columns=2, share_y=True)
        _bars(whole, values, "{:.1f}")
        whole.set(xlabel="test accuracy [%]", xlim=(0, 118), xticks=range(0, 101, 20))
        _seeds(close, values)
        close.set_xlabel("enlarged: mean, 95 % interval, single seeds")
    return figure


def privacy(attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """Reconstruction MSE of the worst case, one panel per attacker knowledge."""
    return _worst_case_bars(attacks, defences, "mse", _ceilings(attacks, "mse"))


def psnr(attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """PSNR of the worst case, one panel per attacker knowledge."""
    return _worst_case_bars(attacks, defences, "psnr", _ceilings(attacks, "psnr"))


def identification(attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """How many of the worst case's reconstructions an undefended classifier still recognises."""
    percent = attacks.assign(**{score: 100 * attacks[score] for score in (IDENTIFICATION, _JUDGE)})
    originals = percent.groupby("knowledge")[_JUDGE].mean().rename("originals")
    figure = _worst_case_bars(percent, defences, IDENTIFICATION, originals)
    figure.axes[0].set_xticks(range(0, 101, 20))  # all panels share it
    return figure


def _ceilings(attacks: pd.DataFrame, score: str) -> "pd.Series[float]":
    """What an attacker reaches without looking at the released tensor, by knowledge."""
    found = attacks[attacks["attack"] == CEILING].groupby("knowledge")[score].mean()
    return found.rename(readable(CEILING))


def _worst_case_bars(
    attacks: pd.DataFrame,
    defences: Sequence[str],
    score: str,
    reference: "pd.Series[float]",
) -> Figure:
    """Bars of a score of the worst case; the reference has a value per knowledge and a name."""
    names = present(attacks, defences)
    strongest = worst_case(attacks)
    knowledges = list(attacks["knowledge"].unique())
    with settings():
        figure, panels = new_figure(
            _height(names) + 0.4, columns=len(knowledges), share_x=True, share_y=True
        )
        for panel, knowledge in zip(panels, knowledges, strict=True):
            rows = strongest[strongest["knowledge"] == knowledge]
            values = {name: _wanted(rows[rows["defence"] == name], score) for name in names}
            late = rows.loc[unconverged(rows, score), "defence"].tolist()
            _bars(panel, values, None, late)
            for place, name in enumerate(names):
                _name_strongest(panel, place, rows[rows["defence"] == name], score)
            _reference(panel, reference.get(knowledge, math.nan), str(reference.name))
            panel.set_title(f"attacker has {readable(knowledge)}", pad=16)
        _start_at_zero(panels)
        figure.supxlabel(SCORES[score].axis, fontsize=9)
    return figure


def _percent(runs: pd.DataFrame, defence: str) -> list[float]:
    return (100 * runs.loc[runs["defence"] == defence, "top1"]).tolist()


def _wanted(rows: pd.DataFrame, score: str) -> list[float]:
    """A value per seed, NaN for those that failed; what was not measured is left out."""
    return rows.loc[rows[score].notna() | (rows["status"] == "failed"), score].tolist()


def _height(names: Sequence[str]) -> float:
    return 0.9 + 0.34 * len(names)


def _bars(
    panel: Axes, values: dict[str, list[float]], template: str | None, late: Sequence[str] = ()
) -> None:
    """Horizontal bars from zero, first defence on top, the number written beside each.

    Those of the defences in `late`, whose attack had not converged, are hollow and marked.
    """
    for place, (name, look) in enumerate(looks(list(values)).items()):
        found = mean_interval(values[name])
        width = found.mean if math.isfinite(found.mean) else 0.0
        colour, hatch = ("white", "") if name in late else (look.colour, look.hatch)
        panel.barh(place, width, height=0.62, color=colour, alpha=0.45, hatch=hatch, ec="black")
        _whisker(panel, place, found, "black")
        number = template.format(found.mean) if template else significant(found.mean)
        _write(panel, place, found, marked(number, name in late), wanted=len(values[name]))
    _name_rows(panel, list(values))


def _seeds(panel: Axes, values: dict[str, list[float]]) -> None:
    """Means with intervals, and each seed as a small open circle just below."""
    for place, (name, look) in enumerate(looks(list(values)).items()):
        found = mean_interval(values[name])
        panel.plot(found.mean, place - 0.1, look.marker, color=look.colour)
        _whisker(panel, place - 0.1, found, look.colour)
        panel.plot(
            values[name], [place + 0.18] * len(values[name]), "o", mfc="none", mec="#555555", ms=3.5
        )
    _name_rows(panel, list(values))


def _whisker(panel: Axes, place: float, found: Interval, colour: str) -> None:
    panel.errorbar(
        found.mean,
        place,
        xerr=[[found.mean - found.low], [found.high - found.mean]],
        color=colour,
        capsize=3,
        linewidth=1.2,
    )


def _write(panel: Axes, place: float, found: Interval, number: str, wanted: int) -> None:
    """The mean to the right of its bar, and how many of the wanted seeds are not in it."""
    failed = f"failed ({wanted - found.n} of {wanted})" if wanted else "not measured"
    panel.annotate(
        failed if found.n == 0 else number if found.n == wanted else f"{number}, {failed}",
        (_edge(found), place),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        bbox=_CLEAR,
    )


def _edge(found: Interval) -> float:
    """Where a bar and its whisker end."""
    return max(v for v in (found.mean, found.high, 0.0) if math.isfinite(v))


def _name_strongest(panel: Axes, place: int, rows: pd.DataFrame, score: str) -> None:
    """The attack that is strongest on most seeds, small below the bar's number."""
    found = mean_interval(rows[score].tolist())
    counts = Counter(rows.loc[rows["status"] == "ok", "strongest"])
    if not counts or not found.n:
        return
    name, count = counts.most_common(1)[0]
    share = "" if count == counts.total() else f" ({count} of {counts.total()})"
    panel.annotate(
        readable(name) + share,
        (_edge(found), place),
        xytext=(4, -5),
        textcoords="offset points",
        va="top",
        fontsize=6,
        color="#555555",
        bbox=_CLEAR,
    )


def _name_rows(panel: Axes, names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), [readable(name) for name in names])
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.grid(axis="y", visible=False)


def _reference(panel: Axes, value: float, name: str) -> None:
    """Dashed line at what the bars are to be compared with, where it is known."""
    if not math.isfinite(value):
        return
    panel.axvline(value, color="black", linestyle=(0, (4, 3)), linewidth=1)
    panel.annotate(
        f"{name} {significant(value)}",
        (value, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=8,
    )


def _start_at_zero(panels: Sequence[Axes]) -> None:
    """One scale from zero for all panels (they share it), with room for the written numbers."""
    reach = max(panel.dataLim.x1 for panel in panels)
    panels[0].set_xlim(0, 1.4 * reach if reach > 0 else 1)
