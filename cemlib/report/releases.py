"""What an attacker gains by asking for several releases of the same image."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from cemlib.marks import marked
from cemlib.report.style import (
    Look,
    legend,
    log_scale,
    looks,
    new_figure,
    readable,
    remark,
    settings,
)
from cemlib.report.tables import present
from cemlib.report.verdicts import unconverged
from cemlib.report.worst_case import release_counts, worst_cases
from cemlib.scores import SCORES

_LEGEND_COLUMNS = 5


def releases(attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """Worst-case MSE against the number of releases, both logarithmic.

    A point is the mean over the seeds of the strongest attack on at most so many releases, its
    whisker spans the seeds. One line per defence, one panel per attacker knowledge.

    Args:
        attacks: as `collect` returns them.
        defences: order of the study; it decides the looks.
    """
    style = looks(present(attacks, defences))
    strongest = worst_cases(attacks)
    knowledges = list(attacks["knowledge"].unique())
    with settings():
        legend_rows = math.ceil(len(style) / _LEGEND_COLUMNS)
        figure, panels = new_figure(3.2 + 0.19 * legend_rows, len(knowledges), share_y=True)
        for panel, knowledge in zip(panels, knowledges, strict=True):
            _lines(panel, strongest[strongest["knowledge"] == knowledge], style)
            _count_releases(panel, release_counts(attacks))
            panel.set_title(f"attacker has {readable(knowledge)}")
        panels[0].set_ylabel(SCORES["mse"].axis)
        late = strongest.loc[unconverged(strongest, "mse"), "defence"].tolist()
        legend(figure, {marked(readable(n), n in late): look for n, look in style.items()})
    return figure


def _lines(panel: Axes, rows: pd.DataFrame, style: Mapping[str, Look]) -> None:
    finished = rows[rows["status"] == "ok"]
    if finished.empty:
        remark(panel, "no defence has a finished result")
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
        panel.plot(late, mean.loc[late], look.marker, color=look.colour, mfc="white")
    log_scale(panel)


def _count_releases(panel: Axes, counts: Sequence[int]) -> None:
    """The numbers of releases that were tried, and no others, on a logarithmic axis."""
    panel.set_xscale("log")
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.set_xlabel("releases seen of each image, at most")
