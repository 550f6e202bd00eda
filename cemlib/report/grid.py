"""Draw the same test images as the strongest attack on each defence reconstructs them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from cemlib.records.files import FileError
from cemlib.records.scores import marked
from cemlib.report.style import WIDTH, new_figure, readable, saying, significant
from cemlib.report.tables import at_chance, present, records
from cemlib.report.worst_case import worst_case

Picture = NDArray[np.uint8]
MOST = 6  # defences
_MARGIN = 1.5  # inches left of the pictures, for names and numbers


def reconstructions(
    runs: pd.DataFrame,
    attacks: pd.DataFrame,
    defences: Sequence[str],
    reference: str | None,
    knowledge: str,
) -> Figure:
    """Draw originals, then their reconstructions by the strongest attack on each defence.

    Below are maps of the error on the defence with the highest MSE. Accuracy and MSE beside a row
    are of the run shown, the lowest seed that did not fail, over all its images. Of many defences
    `shown` picks some.

    Raises:
        FileError: naming a strip that is missing, or that shows other originals than another one.
    """
    strongest = worst_case(attacks[attacks["knowledge"] == knowledge])
    names = shown(strongest, present(strongest, defences), reference)
    rows = {name: lowest_seed(strongest, name) for name in names}
    finished = [row for row in rows.values() if row is not None]
    if not finished:
        return saying("no defence has a finished result")
    originals, strips = _strips(finished)
    most = max(finished, key=lambda row: float(row["mse"]))["defence"]
    maps = _errors(originals, strips[most])
    highest = max(float(np.max(each)) for each in maps)
    count = 2 + len(rows)
    figure, panels = new_figure((WIDTH - _MARGIN) / len(originals) * 1.08 * count, rows=count)
    figure.suptitle(f"attacker has {readable(knowledge)}", fontsize=9)
    blank = [np.full_like(picture, 255) for picture in originals]
    _show(panels[0], originals, "original")
    for panel, (name, row) in zip(panels[1:-1], rows.items(), strict=True):
        _show(panel, strips.get(name, blank), _label(runs, name, row))
    label = f"error on {readable(most)},\nblack 0, yellow {highest:.2f}"
    _show(panels[-1], [_coloured(each / max(highest, 1e-9)) for each in maps], label)
    return figure


def shown(strongest: pd.DataFrame, names: Sequence[str], reference: str | None) -> list[str]:
    """Return at most `MOST` defences: the first, the reference, and those with the highest MSE."""
    mse = strongest.groupby("defence")["mse"].mean()
    others = sorted(names, key=lambda name: -mse.fillna(-1)[name])
    kept = list(dict.fromkeys([names[0], *(name for name in names if name == reference), *others]))
    return [name for name in names if name in kept[:MOST]]


def lowest_seed(rows: pd.DataFrame, defence: str) -> dict[str, Any] | None:
    """Return the row of a defence's lowest seed that finished, None where none did."""
    finished = rows[(rows["defence"] == defence) & (rows["status"] == "ok")]
    return next(records(finished.sort_values("seed")), None)


def _label(runs: pd.DataFrame, name: str, row: dict[str, Any] | None) -> str:
    if row is None:
        return f"{readable(name)}\nfailed"
    run = runs[(runs["defence"] == name) & (runs["seed"] == row["seed"])]
    mse = marked(f"MSE {significant(row['mse'])}", row["converged"] is False)
    chance = " (chance)" if at_chance(run).item() else ""
    accuracy = f"{100 * run['top1'].item():.1f} % accurate{chance}"
    return f"{readable(name)}\n{accuracy}\n{readable(row['strongest'])}: {mse}"


def _strips(rows: Sequence[dict[str, Any]]) -> tuple[list[Picture], dict[str, list[Picture]]]:
    """Return the originals, which must be the same everywhere, and each one's reconstructions."""
    originals, strips = list[Picture](), {}
    for row in rows:
        path = Path(row["folder"]) / "reconstructions.png"
        above, strips[row["defence"]] = read_strip(path)
        if originals and not np.array_equal(originals, above):
            raise FileError(f"{path}: shows other originals than the attacks before; rerun it")
        originals = above
    return originals, strips


def _errors(originals: Sequence[Picture], strip: Sequence[Picture]) -> list[NDArray[np.float64]]:
    """Return maps (H, W) of the absolute error, of values in [0, 1], mean over the channels."""
    pairs = zip(originals, strip, strict=True)
    return [np.abs(one / 255.0 - other / 255.0).mean(axis=2) for one, other in pairs]


def _coloured(values: NDArray[np.float64]) -> Picture:
    return mpl.colormaps["inferno"](values, bytes=True)[..., :3]


def read_strip(path: Path) -> tuple[list[Picture], list[Picture]]:
    """Split a picture of two rows of square images into the images of each row (H, W, 3).

    Raises:
        FileError: if it is missing or no picture.
    """
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
    except OSError as error:
        raise FileError(f"{path}: cannot be read as a picture ({error}); rerun it") from error
    above, below = np.split(pixels, 2)
    count = pixels.shape[1] // len(above)
    return np.split(above, count, axis=1), np.split(below, count, axis=1)


def _show(panel: Axes, pictures: Sequence[Picture], label: str) -> None:
    """Show a row of pictures with a white gap between them, the label on their left."""
    show(panel, spaced(pictures))
    panel.set_ylabel(label, rotation=0, ha="right", va="center")


def spaced(pictures: Sequence[Picture]) -> Picture:
    """Return pictures beside each other with white gaps between them."""
    side = pictures[0].shape[0]
    gap = np.full((side, max(1, side // 16), 3), 255, np.uint8)
    return np.hstack([part for picture in pictures for part in (picture, gap)][:-1])


def show(panel: Axes, pixels: Picture) -> None:
    """Show pixels as they are, without axes."""
    panel.imshow(pixels, interpolation="nearest")
    panel.set(xticks=[], yticks=[])
    panel.grid(False)
    panel.spines[:].set_visible(False)
