"""Accuracy against privacy: one point per defence with an interval in both directions."""

import math
import textwrap
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from cemlib.marks import marked
from cemlib.report.statistics import Interval, mean_interval
from cemlib.report.style import Look, looks, new_figure, readable, remark, settings
from cemlib.report.tables import counted, present
from cemlib.report.verdicts import unconverged
from cemlib.report.worst_case import worst_case
from cemlib.scores import SCORES

# Where a label may stand around its point, in points; the first free place is taken.
_NEAR = 8
_PLACES = [
    (dx * radius, dy * radius)
    for radius in (_NEAR, 16, 26, 38)
    for dx, dy in ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))
]
MOST_LABELS = 12  # in one row of panels: more need the whole width
_SIDES: dict[float, Literal["right", "center", "left"]] = {
    -1.0: "right",
    0.0: "center",
    1.0: "left",
}


def tradeoff(
    runs: pd.DataFrame, attacks: pd.DataFrame, defences: Sequence[str], score: str
) -> Figure:
    """Test accuracy against a worst-case score, one panel per attacker knowledge.

    Args:
        runs: as `collect` returns them.
        attacks: likewise.
        defences: order of the study; it decides the looks.
        score: ``mse`` or ``ssim``.
    """
    names = present(runs, defences)
    strongest = worst_case(attacks)
    knowledges = list(attacks["knowledge"].unique())
    with settings():
        figure, panels = _empty(len(names), len(knowledges))
        for panel, knowledge in zip(panels, knowledges, strict=True):
            rows = strongest[strongest["knowledge"] == knowledge]
            _points(panel, names, runs, rows, score)
            panel.set(title=_title(rows, knowledge), xlabel="test accuracy [%]")
        for panel in panels[: 1 if len(names) <= MOST_LABELS else None]:
            panel.set_ylabel(SCORES[score].axis)
        lowest = min(panel.dataLim.y0 for panel in panels)
        panels[0].set_ylim(bottom=max(panels[0].get_ylim()[0], min(0, lowest)))
        place_labels(figure, panels)
    return figure


def _empty(names: int, panels: int) -> tuple[Figure, list[Axes]]:
    """Panels beside each other, or below each other where many labels need the whole width."""
    if names <= MOST_LABELS:
        return new_figure(3.4, columns=panels, share_y=True)
    return new_figure(4.4 * panels, rows=panels, share_y=True)


def _title(rows: pd.DataFrame, knowledge: str) -> str:
    """The attacker's knowledge, and how often which attack was the strongest."""
    names = readable(counted(rows["strongest"])) or "unknown"
    unbroken = names.replace(" (", "\N{NO-BREAK SPACE}(")
    lines = textwrap.wrap(f"strongest: {unbroken}", 50)
    return "\n".join([f"attacker has {readable(knowledge)}", *lines])


def _points(
    panel: Axes, names: Sequence[str], runs: pd.DataFrame, rows: pd.DataFrame, score: str
) -> None:
    drawn = 0
    for name, look in looks(names).items():
        x = mean_interval((100 * runs.loc[runs["defence"] == name, "top1"]).tolist())
        y = mean_interval(rows.loc[rows["defence"] == name, score].tolist())
        if math.isfinite(x.mean) and math.isfinite(y.mean):
            late = unconverged(rows[rows["defence"] == name], score).any()
            draw_point(panel, readable(name), look, x, y, hollow=bool(late))
            drawn += 1
    if not drawn:
        remark(panel, "no defence has a finished result")
    panel.margins(0.18)
    panel.locator_params(axis="x", nbins=5)


def draw_point(
    panel: Axes, name: str, look: Look, x: Interval, y: Interval, *, hollow: bool
) -> None:
    """A mean with its intervals and its name, which `place_labels` moves; no label without name.

    It is hollow, and its name marked, where the attack had not converged.
    """
    panel.errorbar(
        x.mean,
        y.mean,
        xerr=[[x.mean - x.low], [x.high - x.mean]],
        yerr=[[y.mean - y.low], [y.high - y.mean]],
        fmt=look.marker,
        color=look.colour,
        markersize=7,
        markerfacecolor="white" if hollow else look.colour,
        markeredgecolor=look.colour if hollow else "black",
        markeredgewidth=1.2 if hollow else 0.5,
        elinewidth=1.1,
        capsize=2.5,
    )
    if not name:
        return
    panel.annotate(
        marked(name, hollow),
        (x.mean, y.mean),
        xytext=_PLACES[0],
        textcoords="offset points",
        fontsize=8,
        va="center",
    )


def place_labels(figure: Figure, panels: Sequence[Axes]) -> None:
    """Move each label to the first place that covers no point, whisker or earlier label."""
    figure.draw_without_rendering()
    for panel in panels:
        labels = [child for child in panel.texts if isinstance(child, Annotation)]
        centres = [panel.transData.transform(label.xy) for label in labels]
        taken = [Bbox.from_extents(x - 8, y - 8, x + 8, y + 8) for x, y in centres]
        taken += _whiskers(panel)
        for label in labels:
            taken.append(_place(label, taken, panel.bbox))
            if math.hypot(*label.get_position()) > 2 * _NEAR:
                _lead(panel, label)


def _whiskers(panel: Axes) -> list[Bbox]:
    """Extents on the page of the intervals' lines."""
    lines = [line for line in panel.collections if isinstance(line, LineCollection)]
    segments = [np.asarray(segment) for line in lines for segment in line.get_segments()]
    ends = [panel.transData.transform(segment) for segment in segments if len(segment)]
    return [Bbox([end.min(0) - 1, end.max(0) + 1]) for end in ends]


def _place(label: Annotation, taken: Sequence[Bbox], inside: Bbox) -> Bbox:
    """Put the label at its first free place, or at the nearest where there is none."""
    for place in (*_PLACES, _PLACES[0]):
        label.set_position(place)
        label.set_horizontalalignment(_SIDES[float(np.sign(place[0]))])
        box = label.get_window_extent()
        free = not any(box.overlaps(other) for other in taken)
        if free and inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1):
            break
    return box


def _lead(panel: Axes, label: Annotation) -> None:
    """Thin line from a far label to its point."""
    line = {"arrowstyle": "-", "color": "#777777", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 4}
    panel.annotate(
        "", label.xy, xytext=label.get_position(), textcoords="offset points", arrowprops=line
    )
