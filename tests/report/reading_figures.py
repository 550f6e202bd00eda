"""What a figure shows, read back from its artists."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from synthetic_study import DEFENCES


def texts(panel: Axes) -> list[str]:
    return [text.get_text() for text in panel.texts]


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
    """Each axis has a label of its own, the figure's, or leaves its numbers to its neighbour's."""
    return all(
        (panel.get_xlabel() or figure.get_supxlabel() or not shows_numbers(panel.xaxis))
        and (panel.get_ylabel() or names_defences(panel) or not shows_numbers(panel.yaxis))
        for panel in figure.axes
    )


def shows_numbers(axis: Axis) -> bool:
    shown = axis.get_tick_params()
    return bool(shown.get("labelbottom") or shown.get("labelleft"))


def names_defences(panel: Axes) -> bool:
    rows = [label.get_text() for label in panel.get_yticklabels()]
    return rows[: len(DEFENCES)] == list(DEFENCES)
