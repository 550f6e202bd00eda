"""How the error of the strongest attack is spread over the images: a mean hides who is exposed."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cemlib.marks import marked
from cemlib.report.bars import CEILING
from cemlib.report.grid import lowest_seed
from cemlib.report.image_scores import read_scores
from cemlib.report.style import log_scale_across, looks, new_figure, readable, settings
from cemlib.report.tables import present
from cemlib.report.worst_case import worst_case

Array = NDArray[np.float64]

_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_REFERENCE = "#BBBBBB"
_LABEL = (
    "MSE of each image, strongest attack on the lowest finished seed:\n"
    "box from quartile to quartile with the median, line from 5 % to 95 %, dots at the extremes"
)


def per_image_mse(attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """A row per defence, one panel per attacker knowledge, the mean image's row as reference.

    Args:
        attacks: as `collect` returns them.
        defences: order of the rows.

    Raises:
        FileError: naming a ``per_image.parquet`` that is missing or cannot be read.
    """
    names = present(attacks, defences)
    knowledges = list(attacks["knowledge"].unique())
    with settings():
        height = 1.3 + 0.36 * (len(names) + 1)
        figure, panels = new_figure(height, len(knowledges), share_x=True, share_y=True)
        for panel, knowledge in zip(panels, knowledges, strict=True):
            _rows(panel, attacks[attacks["knowledge"] == knowledge], names)
            panel.set_title(f"attacker has {readable(knowledge)}")
        for panel in panels:  # after all is drawn: they share their axes
            log_scale_across(panel)
            _name_rows(panel, names)
        figure.supxlabel(_LABEL, fontsize=9)
    return figure


def _rows(panel: Axes, attacks: pd.DataFrame, names: Sequence[str]) -> None:
    strongest = worst_case(attacks)
    for place, (name, look) in enumerate(looks(names).items()):
        row = lowest_seed(strongest, name)
        if row is None:
            _write(panel, place, 0.5, "failed")
        else:
            mse = _read(row["folder"])
            _box(panel, place, mse, look.colour, filled=not row["unconverged"])
            name = marked(readable(row["strongest"]), row["unconverged"])
            _write(panel, place, float(np.median(mse)), name)
    ceiling = attacks[(attacks["attack"] == CEILING) & (attacks["status"] == "ok")]
    if not ceiling.empty:  # whatever is released, so that one defence's stands for all
        mse = _read(ceiling["folder"].iloc[0])
        _box(panel, len(names), mse, _REFERENCE)
        panel.axvline(float(np.median(mse)), color="black", linestyle=(0, (4, 3)), linewidth=0.8)


def _read(folder: str) -> Array:
    """Return the MSE of every image that an attack reconstructed."""
    return read_scores(folder)["mse"].to_numpy(dtype=np.float64)


def _box(panel: Axes, place: int, mse: Array, colour: str, *, filled: bool = True) -> None:
    lowest, low, first, median, third, high, highest = np.quantile(mse, _QUANTILES)
    panel.plot([low, high], [place, place], color=colour, linewidth=1.2)
    inside = colour if filled else "white"
    panel.barh(place, third - first, left=first, height=0.42, color=inside, alpha=0.45, ec="black")
    panel.plot([median] * 2, [place - 0.21, place + 0.21], color="black", linewidth=1.6)
    panel.plot([lowest, highest], [place, place], ".", color=colour, markersize=4)


def _write(panel: Axes, place: int, x: float, text: str) -> None:
    """Small, above the row."""
    panel.annotate(text, (x, place - 0.24), ha="center", va="bottom", fontsize=6)


def _name_rows(panel: Axes, names: Sequence[str]) -> None:
    labels = [*map(readable, names), f"({readable(CEILING)})"]
    panel.set_yticks(range(len(labels)), labels)
    panel.set_ylim(len(labels) - 0.5, -0.7)
    panel.grid(axis="y", visible=False)
