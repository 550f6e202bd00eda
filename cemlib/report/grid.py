"""The same test images under every defence: what an attacker gets to see."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from cemlib.files import FileError
from cemlib.marks import marked
from cemlib.report.style import WIDTH, new_figure, readable, remark, settings, significant
from cemlib.report.tables import present, records
from cemlib.report.verdicts import unconverged

Picture = NDArray[np.uint8]
_MARGIN = 1.5  # inches left of the pictures, for names and numbers


def reconstructions(
    attacks: pd.DataFrame, defences: Sequence[str], attack: str, knowledge: str
) -> Figure:
    """Originals in the first row, then each defence's reconstructions by one attack.

    Shown is the lowest seed that did not fail, with its MSE over all images attacked.

    Args:
        attacks: as `collect` returns them.
        defences: order of the rows.
        attack: name of the attack.
        knowledge: what the attacker has.

    Raises:
        FileError: naming a strip that is missing, is no picture, or shows other originals than the
            one before it.
    """
    chosen = attacks[(attacks["attack"] == attack) & (attacks["knowledge"] == knowledge)]
    rows = {name: lowest_seed(chosen, name) for name in present(chosen, defences)}
    originals, strips = _strips([row for row in rows.values() if row is not None])
    with settings():
        if not originals:
            figure, (panel,) = new_figure(1.0)
            remark(panel, f"{readable(attack)} failed on every run")
            return figure
        height = (WIDTH - _MARGIN) / len(originals) * 1.12 * (len(rows) + 1)
        figure, panels = new_figure(height, rows=len(rows) + 1)
        _show(panels[0], originals, "original")
        blank = [np.full_like(picture, 255) for picture in originals]
        for panel, (name, row) in zip(panels[1:], rows.items(), strict=True):
            error = "failed" if row is None else mse_of(row)
            _show(panel, strips.get(name, blank), f"{readable(name)}\n{error}")
    return figure


def lowest_seed(rows: pd.DataFrame, defence: str) -> dict[str, Any] | None:
    """The row of a defence's lowest seed that finished, None where none did.

    ``unconverged`` in it says whether its attack had not converged.
    """
    finished = rows[(rows["defence"] == defence) & (rows["status"] == "ok")]
    if finished.empty:
        return None
    flagged = finished.assign(unconverged=unconverged(finished, "mse"))
    return next(records(flagged.sort_values("seed")))


def mse_of(row: Mapping[str, Any]) -> str:
    """Return the MSE of a row of `lowest_seed` as a label, marked where it has to be."""
    return marked(f"MSE {significant(row['mse'])}", row["unconverged"])


def _strips(rows: Sequence[dict[str, Any]]) -> tuple[list[Picture], dict[str, list[Picture]]]:
    """The originals, which must be the same everywhere, and each defence's reconstructions."""
    originals: list[Picture] = []
    strips = {}
    for row in rows:
        path = Path(row["folder"]) / "reconstructions.png"
        above, below = read_strip(path)
        if originals and not np.array_equal(originals, above):
            raise FileError(f"{path}: shows other originals than the attacks before; rerun it")
        originals = above
        strips[row["defence"]] = below
    return originals, strips


def read_strip(path: Path) -> tuple[list[Picture], list[Picture]]:
    """Split a picture of two rows of square images into the images of each row (H, W, 3).

    Raises:
        FileError: if it is missing, no picture, or of another size.
    """
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
    except OSError as error:
        raise FileError(f"{path}: cannot be read as a picture ({error}); rerun it") from error
    height, width = pixels.shape[:2]
    side = height // 2
    if height % 2 or side == 0 or width % side:
        raise FileError(f"{path}: {width}x{height} pixels are not two rows of square images")
    above, below = pixels[:side], pixels[side:]
    count = width // side
    return np.split(above, count, axis=1), np.split(below, count, axis=1)


def _show(panel: Axes, pictures: Sequence[Picture], label: str) -> None:
    """A row of pictures with a white gap between them, the label on their left."""
    show(panel, spaced(pictures))
    panel.set_ylabel(label, rotation=0, ha="right", va="center")


def spaced(pictures: Sequence[Picture]) -> Picture:
    """Pictures beside each other with white gaps between them."""
    side = pictures[0].shape[0]
    gap = np.full((side, max(1, side // 16), 3), 255, np.uint8)
    return np.hstack([part for picture in pictures for part in (picture, gap)][:-1])


def show(panel: Axes, pixels: Picture) -> None:
    """Pixels as they are, without axes."""
    panel.imshow(pixels, interpolation="nearest")
    panel.set(xticks=[], yticks=[])
    panel.grid(False)
    panel.spines[:].set_visible(False)
