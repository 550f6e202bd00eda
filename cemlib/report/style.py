"""Style and save figures: colour-blind safe, readable in grey, the same bytes every time.

The first seven colours are by Okabe and Ito, "Color universal design", 2008. A defence also has its
own marker and hatch, so that nothing rests on colour alone. pyplot's global state is not touched.
"""

import math
from collections.abc import Container, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from cemlib.records.files import write_bytes
from cemlib.records.scores import MARK, NOTE, decimals, marked

# Metadata that would make two files of the same picture differ is left out.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
WIDTH = 7.0  # inches: the text width of a page

_COLOURS = (
    *("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"),
    *("#999999", "#882255", "#B8A000", "#44AA99", "#332288", "#AA6644"),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "---", "+++", "***")
_SETTINGS: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "font.size": 9,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
    "pdf.fonttype": 42,  # publishers refuse the default, type 3
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.04,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}
_DPI = 300
_LEGEND_COLUMNS = 5


@dataclass(frozen=True)
class Look:
    """The look of one defence in every figure."""

    colour: str
    marker: str
    hatch: str


def looks(defences: Sequence[str]) -> dict[str, Look]:
    """Return the look of each defence by its place in the study; those of the first 936 differ."""
    every = map(Look, cycle(_COLOURS), cycle(_MARKERS), cycle(_HATCHES))
    return dict(zip(defences, every, strict=False))


settings = partial(mpl.rc_context, _SETTINGS)
"""Apply the style to figures made inside this context."""


def new_figure(
    height: float,
    columns: int = 1,
    rows: int = 1,
    *,
    width: float = WIDTH,
    legend_of: Sized = (),
    share_x: bool = False,
    share_y: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure of a size in inches plus the `legend`, and its panels row by row."""
    height += 0.19 * math.ceil(len(legend_of) / _LEGEND_COLUMNS)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=share_x, sharey=share_y)
    return figure, list(panels.flat)


def save(figure: Figure, folder: Path, name: str, note: str = "") -> list[Path]:
    """Write ``name``.png (300 dpi) and ``name``.pdf, without dates or versions.

    `note` is printed above the figure, since below it would push the legend down. So is an
    explanation of the mark of unconverged attacks, if any text of the figure has that mark.

    Raises:
        FileError: if the disk is full, or writing is not permitted.
    """
    notes = [note] if note else []
    if any(isinstance(text, Text) and MARK in text.get_text() for text in figure.findobj(Text)):
        has_marks = any(panel.lines or panel.patches for panel in figure.axes)
        notes.append(f"{NOTE}; its bars and points are hollow" if has_marks else NOTE)
    if notes:
        figure.text(0.01, 1.01, "\n".join(notes), va="bottom", fontsize=7)
    written = []
    for kind, metadata in _METADATA.items():
        content, path = BytesIO(), folder / f"{name}.{kind}"
        with settings():
            figure.savefig(content, format=kind, dpi=_DPI, metadata=metadata)
        write_bytes(path, content.getvalue())
        written.append(path)
    return written


def legend(figure: Figure, styles: Mapping[str, Look], unconverged: Container[str] = ()) -> None:
    """Add a legend of the defences below all panels; those in `unconverged` are marked."""
    labels = {name: marked(readable(name), name in unconverged) for name in styles}
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, label=labels[name])
        for name, look in styles.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=_LEGEND_COLUMNS)


def empty_figure(text: str) -> Figure:
    """Return a figure that contains nothing but the reason why it is empty."""
    figure, (panel,) = new_figure(1.0)
    explain_empty(panel, text)
    return figure


def log_scale(panel: Axes) -> None:
    """Make the vertical axis logarithmic, with a few plain numbers however long it is."""
    panel.set_yscale("log")
    low, high = panel.yaxis.get_view_interval()
    wide = LogLocator(subs=(1, 2, 5) if high < low * 1e3 else (1,))
    panel.yaxis.set_major_locator(wide if high >= 5 * low else MaxNLocator(4))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())


def readable(name: str) -> str:
    """Return a name of the configuration as words: ``train_data`` becomes ``train data``."""
    return name.replace("_", " ")


def explain_empty(panel: Axes, text: str) -> None:
    """Write the reason why a panel is empty into it."""
    panel.text(0.5, 0.5, text, ha="center", va="center", transform=panel.transAxes, color="#555555")
    panel.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
    panel.grid(False)


def significant(value: float, digits: int = 3) -> str:
    """Return ``value`` with a number of significant digits, never in exponential form."""
    if not math.isfinite(value) or value == 0:
        return "∞" if math.isinf(value) else f"{value:g}"
    return f"{value:.{decimals(value, digits)}f}"
