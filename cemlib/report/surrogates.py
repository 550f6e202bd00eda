"""How one defence's surrogate worked over the epochs of its training.

Lines are means over the finished runs and bands span from the lowest to the highest of them. What
concerns the penalty is shown from the epoch on at which the surrogate starts; the leakage bound is
shown from the first epoch, so that its course before and after the start can be compared.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from cemlib.report.curves import histories, mean_and_range, over_seeds
from cemlib.report.style import log_scale, new_figure, readable, remark, settings

_PENALTY, _RATIO = "surrogate", "surrogate/gradient_ratio"
_BOUND, _ACTIVE = "val_leakage_nats", "surrogate/active"
_LABELS = {
    _PENALTY: "penalty",
    _RATIO: "ratio of gradients,\nsurrogate / task",
    _BOUND: "leakage bound,\nvalidation [nats]",
    _ACTIVE: "share of active hinges",
}
# What single surrogates say of themselves, the most telling first.
_NOTES = {
    "surrogate/slot_share": "share of the slots' penalty",
    "surrogate/strength": "strength of the slots",
    "surrogate/effective_sample_size": "effective sample size",
    "surrogate/slot_entropy": "slot entropy [nats]",
    "surrogate/class_gate": "class gate",
    "surrogate/gate": "gate",
    "surrogate/spared": "share of the metric\nspared",
    "surrogate/effective_rank": "effective rank of\nwhat the server uses",
    "surrogate/variance": "variance",
    "surrogate/reached": "share of components reached",
    "surrogate/stale": "staleness of the factors",
    "surrogate/empty": "share of empty clusters",
    "surrogate/classes": "classes per batch",
}
_ABSENT = {
    _PENALTY: "never active",
    _RATIO: "not recorded",
    _BOUND: "no finite bound",
    _ACTIVE: "not recorded",
}
_COURSE = "#000000"
_START: Any = {"color": "#BBBBBB", "linewidth": 0.9, "zorder": 1}
_REFERENCE: Any = {"color": "#777777", "linewidth": 0.9, "linestyle": (0, (4, 2))}


def surrogate_course(runs: pd.DataFrame, defence: str, reference: str | None = None) -> Figure:
    """Penalty, gradient, leakage bound, active hinges and up to two statistics of its own.

    Args:
        runs: as `cemlib.report.collect.collect_runs` returns them.
        defence: the one whose surrogate is shown; its failed runs are left out.
        reference: the defence whose leakage bound is drawn beside it, where it has a finite one.

    Raises:
        FileError: if a history is missing or wrong.
    """
    history = _history(runs, defence)
    with settings():
        if history.empty:
            figure, (panel,) = new_figure(1.2)
            remark(panel, f"all runs of {readable(defence)} failed")
            return figure
        figure, panels = new_figure(4.6, 3, 2)
        figure.suptitle(f"{readable(defence)}: its surrogate over the epochs", fontsize=9)
        handles = _fill(panels, history)
        if reference not in (None, defence):
            handles += _add_reference(panels[2], _history(runs, reference))
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _history(runs: pd.DataFrame, defence: str | None) -> pd.DataFrame:
    chosen = runs[runs["defence"] == defence]
    return histories(chosen, ("defence", "seed"), ("lambda_eff", *_LABELS, *_NOTES))


def _fill(panels: Sequence[Axes], history: pd.DataFrame) -> list[Artist]:
    """Draw all courses; returns what the legend has to explain."""
    acting = history[history["lambda_eff"].astype(float) > 0]
    notes = [column for column in _NOTES if acting[column].notna().any()][:2]
    shown = (*_LABELS, *notes)
    for panel, column in zip(panels, shown, strict=False):
        _draw(panel, history if column == _BOUND else acting, column)
    for panel in panels[len(shown) :]:
        remark(panel, "no further statistic")
    for panel in panels:
        if panel.lines:
            panel.set_xlim(history["epoch"].min() - 0.5, history["epoch"].max() + 0.5)
    runs = history["seed"].nunique()
    handles: list[Artist] = [
        Line2D([], [], color=_COURSE, label=f"mean over runs ({runs})"),
        Patch(color=_COURSE, alpha=0.18, linewidth=0, label="their range"),
    ]
    return handles + ([] if acting.empty else _add_start(panels, acting["epoch"].min()))


def _draw(panel: Axes, rows: pd.DataFrame, column: str) -> None:
    panel.set(xlabel="epoch", ylabel=(_LABELS | _NOTES)[column])
    over = over_seeds(rows, column)
    if over.empty:
        remark(panel, _ABSENT[column])
        return
    mean_and_range(panel, rows, column, _COURSE, marker="o" if len(over) == 1 else "")
    panel.ticklabel_format(axis="y", useOffset=False)
    if column == _RATIO and (over["max"] > 0).any():
        log_scale(panel)
    if column == _ACTIVE:
        panel.set_ylim(-0.03, 1.03)


def _add_start(panels: Sequence[Axes], epoch: int) -> list[Artist]:
    for panel in panels:
        if panel.lines:
            panel.axvline(epoch, **_START)
    return [Line2D([], [], label="start of the surrogate", **_START)]


def _add_reference(panel: Axes, history: pd.DataFrame) -> list[Artist]:
    """The reference's leakage bound, where both have one."""
    mean = over_seeds(history, _BOUND)["mean"]
    if mean.empty or not panel.lines:
        return []
    panel.plot(mean.index.to_numpy(), mean.to_numpy(), **_REFERENCE)
    return [
        Line2D([], [], label=f"{readable(history['defence'].iloc[0])} (reference)", **_REFERENCE)
    ]
