"""The images that a defence protects least and most, as the strongest attack sees them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cemlib.report.grid import Picture, lowest_seed, mse_of, read_strip, show, spaced
from cemlib.report.style import WIDTH, new_figure, readable, remark, settings
from cemlib.report.tables import present
from cemlib.report.worst_case import worst_case

_ONE_COLUMN = 4  # so many defences stand below each other; more of them in two columns
_RULE = (
    "Images with the lowest MSE (left, least protected) and with the highest (right, most "
    "protected):\noriginals above their reconstructions by the strongest attack on one release, "
    "lowest finished seed"
)


def extremes(attacks: pd.DataFrame, defences: Sequence[str], knowledge: str) -> Figure:
    """For each defence its own least and most protected images above their reconstructions.

    Args:
        attacks: as `collect` returns them.
        defences: order of the study.
        knowledge: what the attacker has.

    Raises:
        FileError: naming a strip that is no picture or of a wrong size.
    """
    chosen = attacks[attacks["knowledge"] == knowledge]
    strongest = worst_case(chosen)
    blocks = {name: lowest_seed(strongest, name) for name in present(chosen, defences)}
    columns = 1 if len(blocks) <= _ONE_COLUMN else 2
    rows = -(-len(blocks) // columns)
    with settings():
        height = 0.5 + rows * (0.27 + 0.19 * WIDTH / columns)
        figure, panels = new_figure(height, columns, rows)
        figure.suptitle(f"Attacker has {readable(knowledge)}. {_RULE}", fontsize=8)
        for panel, (name, row) in zip(panels, blocks.items(), strict=False):
            _block(panel, name, row)
        for panel in panels[len(blocks) :]:
            panel.set_axis_off()
    return figure


def _block(panel: Axes, name: str, row: Mapping[str, Any] | None) -> None:
    panel.set_title(_title(name, row), loc="left", fontsize=8, pad=3)
    if row is None:
        remark(panel, "no result")
        panel.spines[:].set_visible(False)
        return
    above, below = map(_halves, read_strip(Path(row["folder"]) / "extremes.png"))
    show(panel, np.vstack([above, np.full_like(above[:2], 255), below]))


def _title(name: str, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return f"{readable(name)}: failed"
    return f"{readable(name)}: {readable(row['strongest'])}, mean {mse_of(row)}"


def _halves(pictures: Sequence[Picture]) -> Picture:
    """The least protected, a wide gap with a line in it, the most protected."""
    half = (len(pictures) + 1) // 2
    left, right = pictures[:half], pictures[half:]
    if not right:
        return spaced(left)
    side = left[0].shape[0]
    gap = np.full((side, 2 * (side // 6) + 1, 3), 255, np.uint8)
    gap[:, side // 6] = 0
    return np.hstack([spaced(left), gap, spaced(right)])
