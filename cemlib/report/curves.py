"""Learning curves over the epochs: of the attacks and of the training.

Lines are means over the seeds and bands span from the lowest to the highest seed: with few seeds a
t interval would reach below zero, where no logarithmic scale goes.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cemlib.files import FileError, read_jsonl
from cemlib.marks import MARK
from cemlib.report.style import log_scale, looks, new_figure, readable, remark, settings
from cemlib.report.tables import present
from cemlib.report.verdicts import unconverged

Line = tuple[int, tuple[int, ...]]  # offset and lengths of dashes and gaps, in points
_ATTACKED = ("attack", "knowledge", "defence", "converged")
_DECODER, _RECOGNISED = "decoder", "val_recon_top1"
_TRAINING = ("train_loss", "val_loss", "val_top1", "lambda_eff", "surrogate")
_SOLID: Line = (0, ())
_DASHED: Line = (0, (4, 2))


def attack_curves(attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """MSE over the epochs: a row for each attack that learns, a column for each knowledge."""
    names = present(attacks, defences)
    history = histories(attacks, _ATTACKED, ("train_mse", "val_mse"))
    learned = [name for name in attacks["attack"].unique() if name in set(history["attack"])]
    knowledges = list(attacks["knowledge"].unique())
    with settings():
        rows, columns = max(1, len(learned)), len(knowledges)
        figure, panels = new_figure(0.7 + 2.6 * rows, columns, rows, share_y=True)
        kinds = [(attack, knowledge) for attack in learned for knowledge in knowledges]
        for place, (attack, knowledge) in enumerate(kinds):
            panel = panels[place]
            found = history[(history["attack"] == attack) & (history["knowledge"] == knowledge)]
            _draw(panel, found, names, "train_mse", _SOLID)
            _draw(panel, found, names, "val_mse", _DASHED, marked=True)
            _mark_ends(panel, found, names, "val_mse")
            panel.set_title(f"{readable(attack)}, attacker has {readable(knowledge)}")
            # Attacks do not share their axis: they last differently long, and one that trains
            # nothing but searches counts its steps.
            panel.set_xlabel("epoch" if found["train_mse"].notna().any() else "step")
            panel.set_ylabel("" if place % columns else "reconstruction MSE")
            log_scale(panel)
        if not kinds:
            remark(panels[0], "no attack of this study learns in epochs")
        _legend(figure, names, "on the attacker's images", "on held-out images")
    return figure


def recognition_course(attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """Draw how many reconstructions the judge recognises while a decoder is trained.

    Of the attack `decoder`, or else of the first that recorded it; a panel for each knowledge.

    Args:
        attacks: as `collect` returns them.
        defences: order of the study; it decides the looks.
    """
    names, knowledges = present(attacks, defences), list(attacks["knowledge"].unique())
    history = histories(attacks, _ATTACKED, (_RECOGNISED,)).dropna(subset=_RECOGNISED)
    history["percent"] = 100 * history[_RECOGNISED].astype(float)
    recorded = list(history["attack"].unique())
    with settings():
        if not recorded:
            figure, (panel,) = new_figure(1.0)
            remark(panel, "no attack of this study recorded what the judge recognises")
            return figure
        attack = _DECODER if _DECODER in recorded else recorded[0]
        figure, panels = new_figure(3.3, len(knowledges), share_y=True)
        for panel, knowledge in zip(panels, knowledges, strict=True):
            found = history[(history["attack"] == attack) & (history["knowledge"] == knowledge)]
            _draw(panel, found, names, "percent", _SOLID, marked=True)
            _mark_ends(panel, found, names, "percent")
            panel.set_title(f"{readable(attack)}, attacker has {readable(knowledge)}")
            panel.set_xlabel("epoch")
        panels[0].set_ylabel("reconstructions recognised [%]")
        _legend(figure, names)
    return figure


def training_curves(runs: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """Loss, validation accuracy, strength of the surrogate and its value over the epochs."""
    names = present(runs, defences)
    history = histories(runs, ("defence",), _TRAINING)
    history["val_percent"] = 100 * history["val_top1"].astype(float)
    with settings():
        figure, panels = new_figure(5.2, 2, 2, share_x=True)
        loss, accuracy, strength, surrogate = panels
        _draw(loss, history, names, "train_loss", _SOLID)
        _draw(loss, history, names, "val_loss", _DASHED, marked=True)
        _draw(accuracy, history, names, "val_percent", _DASHED, marked=True)
        _draw_positive(strength, history, names, "lambda_eff")
        _draw_positive(surrogate, history, names, "surrogate")
        log_scale(loss)
        loss.set(ylabel="loss")
        accuracy.set(ylabel="validation accuracy [%]")
        strength.set(xlabel="epoch", ylabel="weight of the surrogate  $\\lambda_{eff}$")
        surrogate.set(xlabel="epoch", ylabel="value of the surrogate")
        _legend(figure, names, "training", "validation")
    return figure


def histories(frame: pd.DataFrame, keys: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Every finished job's history in one table, with the job's ``keys`` beside each epoch."""
    lines = []
    for row in frame[frame["status"] == "ok"].to_dict("records"):
        path = Path(row["folder"]) / "history.jsonl"
        for line in read_jsonl(path):
            if "epoch" not in line:
                raise FileError(f"{path}: a line has no 'epoch'; delete it and rerun the job")
            lines.append(line | {key: row[key] for key in keys})
    return pd.DataFrame(lines, columns=[*keys, "epoch", *values])


def over_seeds(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Mean, lowest and highest value of a column at each epoch; what is absent is left out."""
    values = rows[["epoch", column]].dropna().astype(float)
    return values.groupby("epoch")[column].agg(["mean", "min", "max"])


def mean_and_range(panel: Axes, rows: pd.DataFrame, column: str, colour: str, **line: Any) -> None:
    """A line through the means over the seeds, on a band from the lowest to the highest seed."""
    over = over_seeds(rows, column)
    epochs, mean, low, high = over.index, over["mean"], over["min"], over["max"]
    panel.plot(epochs.to_numpy(), mean.to_numpy(), color=colour, **line)
    panel.fill_between(
        epochs.to_numpy(), low.to_numpy(), high.to_numpy(), color=colour, alpha=0.18, linewidth=0
    )


def _draw(
    panel: Axes,
    history: pd.DataFrame,
    names: Sequence[str],
    column: str,
    line: Line,
    *,
    marked: bool = False,
) -> None:
    """A line with a band per defence."""
    for place, (name, look) in enumerate(looks(names).items()):
        rows = history[history["defence"] == name]
        marks: dict[str, Any] = {
            "marker": look.marker,
            "markevery": (0.04 + 0.03 * (place % 5), 0.2),
        }
        width, kept = (1.4, marks) if marked else (0.9, {})
        mean_and_range(panel, rows, column, look.colour, linestyle=line, linewidth=width, **kept)


def _mark_ends(panel: Axes, rows: pd.DataFrame, names: Sequence[str], column: str) -> None:
    """The mark at the end of each line of attacks that had not converged on every seed."""
    for name in rows.loc[unconverged(rows, "mse"), "defence"].unique():
        mean = over_seeds(rows[rows["defence"] == name], column)["mean"]
        end, colour = (mean.index[-1], mean.iloc[-1]), looks(names)[name].colour
        panel.annotate(
            MARK, end, xytext=(2, 0), textcoords="offset points", fontsize=9, color=colour
        )


def _draw_positive(panel: Axes, history: pd.DataFrame, names: Sequence[str], column: str) -> None:
    """What is zero or absent (no surrogate, or not yet active) is left out."""
    positive = history[history[column].astype(float) > 0]
    if positive.empty:
        remark(panel, "no surrogate in this study")
        return
    _draw(panel, positive, names, column, _SOLID, marked=True)
    log_scale(panel)


def _legend(figure: Figure, names: Sequence[str], *kinds: str) -> None:
    handles = [
        Line2D([], [], color="#555555", linestyle=line, label=kind)
        for kind, line in zip(kinds, (_SOLID, _DASHED), strict=False)
    ] + [
        Line2D([], [], color=look.colour, marker=look.marker, label=readable(name))
        for name, look in looks(names).items()
    ]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=min(5, math.ceil(len(handles) / 2))
    )
