"""The costs of the part `scaling` as log-log lines."""

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from cemlib.report.style import Look, log_scale, looks, new_figure, save_as, settings

SUFFIXES = (".png", ".svg")
_AXES = {
    "N": "samples N",
    "C": "classes C",
    "K": "clusters per class K",
    "D": "feature dimensions D",
}
_FIT = ", fit"  # ends the labels of fits


def draw(scaling: dict[str, Any], path: Path) -> Path:
    """Write the figure of what `scaling.scaling` found, of the kind that the path's suffix says.

    Solid lines are a step's forward and backward pass, dashed ones fits; bars go from the fastest
    to the slowest.

    Raises:
        FileError: if the file cannot be written.
    """
    labels = list(dict.fromkeys(label for lines in scaling.values() for label in lines))
    seen = looks(list(dict.fromkeys(label.removesuffix(_FIT) for label in labels)))
    styles = {label: _style(label, seen[label.removesuffix(_FIT)]) for label in labels}
    with settings():
        figure, panels = new_figure(5.8, 2, 2)
        for panel, (quantity, lines) in zip(panels, scaling.items(), strict=True):
            _fill(panel, lines, styles)
            panel.set(xlabel=_AXES[quantity], ylabel="time [ms]")
        handles = [Line2D([], [], label=label, **style) for label, style in styles.items()]
        columns = math.ceil(len(handles) / 3)
        figure.legend(handles=handles, loc="outside lower center", ncols=columns)
    return save_as(figure, path)


def _style(label: str, look: Look) -> dict[str, Any]:
    dashes = "--" if label.endswith(_FIT) else "-"
    return {"color": look.colour, "marker": look.marker, "linestyle": dashes}


def _fill(panel: Axes, lines: dict[str, Any], styles: dict[str, dict[str, Any]]) -> None:
    for label, line in lines.items():
        columns = ("value", "milliseconds", "fastest", "slowest")
        x, y, low, high = ([point[name] for point in line["points"]] for name in columns)
        panel.plot(x, y, **styles[label])
        panel.vlines(x, low, high, colors=styles[label]["color"], linewidth=0.8)
    values = sorted({point["value"] for line in lines.values() for point in line["points"]})
    panel.set_xscale("log")
    panel.set_xticks(values, [f"{value:,}" for value in values])
    panel.xaxis.set_minor_locator(NullLocator())
    log_scale(panel)
