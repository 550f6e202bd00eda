"""Draw attacks over the epochs of their training, and with several releases of an image."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from cemlib.records.scores import MARK, SCORES
from cemlib.report.learning_curves import histories, mean_and_range, over_seeds
from cemlib.report.style import (
    Look,
    empty_figure,
    explain_empty,
    legend,
    log_scale,
    looks,
    new_figure,
    readable,
)
from cemlib.report.tables import present
from cemlib.report.worst_case import release_counts, unconverged, worst_cases

_DECODER = "decoder"
_CURVES = {"val_mse": "MSE of held-out\nreconstructions", "percent": "identified [%]"}


def attack_curves(attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """Draw error and identified share of held-out reconstructions while a decoder trains.

    The attack is `decoder` or, without it, the first that recorded the error.
    """
    style, knowledges = looks(present(attacks, defences)), list(attacks["knowledge"].unique())
    keys = ("attack", "knowledge", "defence", "converged")
    history = histories(attacks, keys, ("val_mse", "val_recon_top1")).dropna(subset="val_mse")
    history["percent"] = 100 * history["val_recon_top1"]
    learned = list(history["attack"].unique())
    if not learned:
        return empty_figure("no attack of this study learns in epochs")
    attack = _DECODER if _DECODER in learned else learned[0]
    figure, panels = new_figure(4.8, len(knowledges), 2, legend_of=style, share_x=True)
    for place, panel in enumerate(panels):
        row, column = divmod(place, len(knowledges))
        chosen = (history["attack"] == attack) & (history["knowledge"] == knowledges[column])
        score = list(_CURVES)[row]
        for name, look in style.items():
            found = history[chosen & (history["defence"] == name)]
            every = max(1, found["epoch"].nunique() // 5)
            line: Any = {"marker": look.marker, "markevery": every}
            over = over_seeds(found, score)
            mean_and_range(panel, over, look.colour, band=row == 0, **line)
            _mark_end(panel, found, over["mean"], look)
        if row == 0:
            panel.set_title(f"{readable(attack)}, attacker has {readable(knowledges[column])}")
        if history.loc[chosen, score].isna().all():  # also where no such attack finished
            explain_empty(panel, "not recorded")
        elif row == 0:
            log_scale(panel)
        panel.set(xlabel="epoch" if row else "", ylabel="" if column else _CURVES[score])
    legend(figure, style)
    return figure


def releases(attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """Draw worst-case MSE against the number of releases: means over the seeds, and their range."""
    style = looks(present(attacks, defences))
    strongest = worst_cases(attacks)
    knowledges = list(attacks["knowledge"].unique())
    counts = release_counts(attacks)
    figure, panels = new_figure(3.2, len(knowledges), legend_of=style, share_y=True)
    for panel, knowledge in zip(panels, knowledges, strict=True):
        _lines(panel, strongest[strongest["knowledge"] == knowledge], style)
        panel.set(xscale="log", xlabel="releases seen of each image, at most")
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.set_title(f"attacker has {readable(knowledge)}")
    panels[0].set_ylabel(SCORES["mse"].axis)
    legend(figure, style, strongest.loc[unconverged(strongest, "mse"), "defence"].tolist())
    return figure


def _lines(panel: Axes, rows: pd.DataFrame, style: Mapping[str, Look]) -> None:
    finished = rows[rows["status"] == "ok"]
    if finished.empty:
        explain_empty(panel, "no defence has a finished result")
        return
    for name, look in style.items():
        over = finished[finished["defence"] == name].groupby("queries")["mse"]
        mean, low, high = over.mean(), over.min(), over.max()
        panel.errorbar(
            mean.index.to_numpy(dtype=float),
            mean.to_numpy(),
            yerr=[(mean - low).to_numpy(), (high - mean).to_numpy()],
            color=look.colour,
            marker=look.marker,
            elinewidth=0.9,
            capsize=2,
        )
        late = rows.loc[unconverged(rows, "mse") & (rows["defence"] == name), "queries"].unique()
        hollow: Any = {"color": look.colour, "mfc": "white", "zorder": 3}  # above the filled ones
        panel.plot(late, mean.loc[late], look.marker, **hollow)
    log_scale(panel)


def _mark_end(panel: Axes, rows: pd.DataFrame, mean: "pd.Series[float]", look: Look) -> None:
    """Mark the end of a line if one of its attacks had not converged."""
    if unconverged(rows, "mse").any() and not mean.empty:
        end = (mean.index[-1], mean.iloc[-1])
        panel.plot(*end, look.marker, color=look.colour, mfc="white", zorder=3)
        panel.annotate(MARK, end, xytext=(2, 0), textcoords="offset points", color=look.colour)
