"""Draw the learning curves of trainings and of their surrogates.

Lines are means over the seeds, and bands span from the lowest to the highest seed: with few seeds a
t interval would reach below zero, which a logarithmic scale cannot show.
"""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from cemlib.records.files import read_jsonl
from cemlib.records.layout import Folder
from cemlib.report.style import empty_figure, explain_empty, log_scale, new_figure, readable
from cemlib.report.tables import present, records

_COLUMNS = 4  # panels of the training curves in one row
_PENALTY, _RATIO = "surrogate", "surrogate/gradient_ratio"
_BOUND, _ACTIVE = "val_leakage_nats", "surrogate/active"
_SURROGATE = {
    _PENALTY: "penalty",
    _RATIO: "gradient ratio,\nsurrogate / task",
    _BOUND: "leakage bound,\nvalidation [nats]",
    _ACTIVE: "share of\nactive hinges",
}
# Statistics of single surrogates; the first one that a surrogate records is drawn.
_OWN = {
    "surrogate/slot_share": "share of the slots",
    "surrogate/strength": "strength of the slots",
    "surrogate/effective_sample_size": "effective sample size",
    "surrogate/slot_entropy": "slot entropy [nats]",
    "surrogate/class_gate": "class gate",
    "surrogate/gate": "gate",
    "surrogate/spared": "share of metric spared",
    "surrogate/effective_rank": "effective rank",
    "surrogate/image_rank": "rank of what shows the image",
    "surrogate/variance": "variance",
    "surrogate/reached": "components reached",
    "surrogate/stale": "staleness of factors",
    "surrogate/empty": "share of empty clusters",
    "surrogate/classes": "classes per batch",
}
_ABSENT = {_PENALTY: "never active", _BOUND: "no finite bound"}
LINE, _OTHER = "#000000", "#0072B2"
BAND = Patch(color=LINE, alpha=0.18, linewidth=0, label="range of seeds")
_START: Any = {"color": "#BBBBBB", "linewidth": 0.9, "zorder": 1}
_REFERENCE: Any = {"color": "#777777", "linewidth": 0.9, "linestyle": (0, (4, 2))}
_DASHED: Any = {"linestyle": (0, (4, 2))}


def training_curves(runs: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """Draw cross-entropies, without penalty, of training and validation; a panel per defence."""
    names = present(runs, defences)
    history = histories(runs, ("defence",), ("train_ce", "val_loss", "lambda_eff"))
    columns = min(_COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    figure, panels = new_figure(0.6 + 1.45 * rows, columns, rows, share_x=True, share_y=True)
    for panel, name in zip(panels, names, strict=False):
        panel.set_title(textwrap.fill(readable(name), 24), fontsize=8)
        _loss(panel, history[history["defence"] == name])
        accuracy = 100 * runs.loc[runs["defence"] == name, "val_top1"].mean()
        if math.isfinite(accuracy):
            panel.text(0.96, 0.88, f"{accuracy:.1f} %", ha="right", transform=panel.transAxes)
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    for panel in panels[max(0, len(names) - columns) : len(names)]:
        panel.tick_params(labelbottom=True)
        panel.set_xlabel("epoch")
    for panel in panels[::columns]:
        panel.set_ylabel("loss")
    training = Line2D([], [], color=LINE, label="training")
    validation = Line2D([], [], color=_OTHER, label="validation", **_DASHED)
    handles = [training, validation, *_explained(history)]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def surrogate_curves(
    runs: pd.DataFrame, surrogates: Sequence[str], reference: str | None
) -> Figure:
    """Draw a row for each surrogate from its start on, and its leakage bound from epoch 1 on."""
    columns = ("lambda_eff", *_SURROGATE, *_OWN)
    if not surrogates:
        return empty_figure("no defence of this study has a surrogate")
    history = histories(runs, ("defence",), columns)
    width = len(_SURROGATE) + 1
    figure, panels = new_figure(0.9 + 1.05 * len(surrogates), width, len(surrogates), share_x=True)
    bound = over_seeds(history[history["defence"] == reference], _BOUND)["mean"]
    for place, name in enumerate(surrogates):
        row = panels[place * width : (place + 1) * width]
        row[0].set_ylabel(textwrap.fill(readable(name), 12), fontsize=8)
        _surrogate_row(row, history[history["defence"] == name])
        if not bound.empty and row[2].lines and name != reference:
            row[2].plot(bound.index.to_numpy(), bound.to_numpy(), **_REFERENCE)
    for panel, title in zip(panels, _SURROGATE.values(), strict=False):
        panel.set_title(title, fontsize=8)
    panels[0].locator_params(axis="x", integer=True)
    for panel in panels[-width:]:
        panel.tick_params(labelbottom=True)
        panel.set_xlabel("epoch")
    compared = [Line2D([], [], label=readable(str(reference)), **_REFERENCE)] * (not bound.empty)
    handles = [Line2D([], [], color=LINE, label="mean"), *_explained(history), *compared]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def histories(frame: pd.DataFrame, keys: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return finished jobs' histories with their ``keys``; raise FileError if one is missing."""
    lines = [
        line | {key: row[key] for key in keys}
        for row in records(frame[frame["status"] == "ok"])
        for line in read_jsonl(Folder(Path(row["folder"])).history)
    ]
    found = pd.DataFrame(lines, columns=[*keys, "epoch", *values])
    return found.astype(dict.fromkeys(("epoch", *values), float))  # a null is NaN


def over_seeds(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the mean, lowest and highest value of a column at each epoch, without missing ones."""
    values = rows[["epoch", column]].dropna()
    return values.groupby("epoch")[column].agg(["mean", "min", "max"])


def mean_and_range(
    panel: Axes, over: pd.DataFrame, colour: str, *, band: bool = True, **line: Any
) -> None:
    """Draw the mean `over_seeds`, on a band from the lowest to the highest seed."""
    epochs, (mean, low, high) = over.index.to_numpy(), over.to_numpy().T
    panel.plot(epochs, mean, color=colour, **line)
    if band:
        panel.fill_between(epochs, low, high, color=colour, alpha=BAND.get_alpha(), linewidth=0)


def _loss(panel: Axes, history: pd.DataFrame) -> None:
    if history.empty:
        explain_empty(panel, "all runs failed")
        return
    _add_start(panel, history)
    mean_and_range(panel, over_seeds(history, "train_ce"), LINE)
    mean_and_range(panel, over_seeds(history, "val_loss"), _OTHER, **_DASHED)
    log_scale(panel)


def _surrogate_row(panels: Sequence[Axes], history: pd.DataFrame) -> None:
    if history.empty:
        for panel in panels:
            explain_empty(panel, "all runs failed")
        return
    acting = history[history["lambda_eff"] > 0]
    own = next((column for column in _OWN if acting[column].notna().any()), None)
    if own is not None:
        panels[-1].set_title(_OWN[own], fontsize=7, pad=2)
    for panel, column in zip(panels, (*_SURROGATE, own), strict=True):
        rows = history if column == _BOUND else acting
        over = over_seeds(rows, column) if column else pd.DataFrame()
        if over.empty:
            explain_empty(panel, _ABSENT.get(str(column), "none recorded"))
            continue
        _add_start(panel, history)
        mean_and_range(panel, over, LINE, marker="o" if len(over) == 1 else "")
        panel.ticklabel_format(axis="y", useOffset=False)
        if column == _RATIO and (over["max"] > 0).any():
            log_scale(panel)
        if column == _ACTIVE:
            panel.set_ylim(-0.03, 1.03)


def _add_start(panel: Axes, history: pd.DataFrame) -> None:
    """Draw a line where the surrogate starts, if one ever does."""
    acting = history[history["lambda_eff"] > 0]
    if not acting.empty:
        panel.axvline(acting["epoch"].min(), **_START)


def _explained(history: pd.DataFrame) -> list[Artist]:
    """Return the legend's handles for bands, and for the start of a surrogate if one acts."""
    starts = (history["lambda_eff"] > 0).any()
    return [BAND, *([Line2D([], [], label="start of the surrogate", **_START)] if starts else [])]
