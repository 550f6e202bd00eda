"""Bars per defence with 95 % intervals: accuracy, worst-case error and PSNR."""

import math
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cemlib.report.statistics import Interval, mean_interval
from cemlib.report.style import looks, new_figure, readable, settings, significant
from cemlib.report.tables import present
from cemlib.report.worst_case import worst_case

CEILING = "mean_image"  # the attack that uses nothing of what is released


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
    label = "worst-case reconstruction MSE  (higher = more private)"
    return _worst_case_bars(attacks, defences, "mse", label)


def psnr(attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """PSNR of the worst case, one panel per attacker knowledge."""
    label = "worst-case reconstruction PSNR [dB]  (lower = more private)"
    return _worst_case_bars(attacks, defences, "psnr", label)


def _worst_case_bars(
    attacks: pd.DataFrame, defences: Sequence[str], score: str, label: str
) -> Figure:
    names = present(attacks, defences)
    strongest = worst_case(attacks)
    knowledges = list(attacks["knowledge"].unique())
    with settings():
        figure, panels = new_figure(
            _height(names) + 0.4, columns=len(knowledges), share_x=True, share_y=True
        )
        for panel, knowledge in zip(panels, knowledges, strict=True):
            rows = strongest[strongest["knowledge"] == knowledge]
            values = {name: rows.loc[rows["defence"] == name, score].tolist() for name in names}
            _bars(panel, values, None)
            _ceiling(panel, attacks[attacks["knowledge"] == knowledge], score)
            panel.set_title(f"attacker has {readable(knowledge)}", pad=16)
        _start_at_zero(panels)
        figure.supxlabel(label, fontsize=9)
    return figure


def _percent(runs: pd.DataFrame, defence: str) -> list[float]:
    return (100 * runs.loc[runs["defence"] == defence, "top1"]).tolist()


def _height(names: Sequence[str]) -> float:
    return 0.9 + 0.34 * len(names)


def _bars(panel: Axes, values: dict[str, list[float]], template: str | None) -> None:
    """Horizontal bars from zero, first defence on top, the number written beside each."""
    for place, (name, look) in enumerate(looks(list(values)).items()):
        found = mean_interval(values[name])
        width = found.mean if math.isfinite(found.mean) else 0.0
        panel.barh(
            place, width, height=0.62, color=look.colour, alpha=0.45, hatch=look.hatch, ec="black"
        )
        _whisker(panel, place, found, "black")
        _write(panel, place, found, template, wanted=len(values[name]))
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


def _write(panel: Axes, place: float, found: Interval, template: str | None, wanted: int) -> None:
    """The mean to the right of its bar, and how many of the wanted seeds are not in it."""
    number = template.format(found.mean) if template else significant(found.mean)
    failed = f"failed ({wanted - found.n} of {wanted})"
    edge = max(v for v in (found.mean, found.high, 0.0) if math.isfinite(v))
    panel.annotate(
        failed if found.n == 0 else number if found.n == wanted else f"{number}, {failed}",
        (edge, place),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
    )


def _name_rows(panel: Axes, names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), [readable(name) for name in names])
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.grid(axis="y", visible=False)


def _ceiling(panel: Axes, attacks: pd.DataFrame, score: str) -> None:
    """Dashed line at what an attacker reaches without looking at the released tensor."""
    found = mean_interval(attacks.loc[attacks["attack"] == CEILING, score].tolist())
    if not math.isfinite(found.mean):
        return
    panel.axvline(found.mean, color="black", linestyle=(0, (4, 3)), linewidth=1)
    panel.annotate(
        f"mean image {significant(found.mean)}",
        (found.mean, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=8,
    )


def _start_at_zero(panels: Sequence[Axes]) -> None:
    """One scale from zero for all panels (they share it), with room for the written numbers."""
    reach = max(panel.dataLim.x1 for panel in panels)
    panels[0].set_xlim(0, 1.25 * reach if reach > 0 else 1)
