"""What a figure shows, read back from its artists."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from synthetic_study import DEFENCES

from cemlib.records.scores import MARK


def texts(panel: Axes) -> list[str]:
    return [text.get_text() for text in panel.texts]


def marks(figure: Figure) -> list[str]:
    """Texts of a figure that carry the mark of an unconverged attack."""
    every = (text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))
    return [text for text in every if MARK in text]


def explained(figure: Figure) -> list[str]:
    """Texts of the figure's only legend."""
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def lines(panel: Axes, colour: str) -> list[np.ndarray]:
    found = [line for line in panel.lines if line.get_color() == colour]
    return [np.asarray(line.get_ydata(), dtype=float) for line in found]


def band(panel: Axes) -> list[tuple[float, float, float]]:
    """Place, lowest and highest value of the panel's only band, from left to right."""
    (drawn,) = panel.collections
    (path,) = drawn.get_paths()
    heights: dict[float, list[float]] = {}
    for x, y in np.asarray(path.vertices).tolist():
        heights.setdefault(x, []).append(y)
    return [(x, min(heights[x]), max(heights[x])) for x in sorted(heights)]


def labelled(figure: Figure) -> bool:
    """Each axis with numbers has a label, of its own or of its row, or a title above its column."""
    places = [(panel.get_subplotspec(), panel) for panel in figure.axes if panel.axison]
    rows = {place.rowspan.start for place, panel in places if panel.get_ylabel()}
    columns = {place.colspan.start for place, panel in places if panel.get_title()}
    return all(
        (panel.get_xlabel() or not shows_numbers(panel.xaxis))
        and (
            place.rowspan.start in rows
            or place.colspan.start in columns
            or names_defences(panel)
            or not shows_numbers(panel.yaxis)
        )
        for place, panel in places
    )


def shows_numbers(axis: Axis) -> bool:
    shown = axis.get_tick_params()
    return bool(shown.get("labelbottom") or shown.get("labelleft"))


def names_defences(panel: Axes) -> bool:
    return bool({label.get_text() for label in panel.get_yticklabels()} & {*DEFENCES})
