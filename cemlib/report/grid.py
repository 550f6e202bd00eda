"""Draw reconstructions of the same test images by the strongest attack on each defence."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from cemlib.records.files import FileError
from cemlib.records.layout import AttackFolder
from cemlib.records.scores import marked
from cemlib.report.frontier import Sweeps, equally_accurate, sweep_points
from cemlib.report.style import WIDTH, empty_figure, new_figure, readable, significant
from cemlib.report.tables import at_chance, present, records
from cemlib.report.worst_case import worst_case

Pictures = NDArray[np.uint8]
MOST = 6  # defences
_MARGIN = 1.5  # inches left of the pictures, for names and numbers


def reconstructions(
    runs: pd.DataFrame,
    attacks: pd.DataFrame,
    defences: Sequence[str],
    reference: str | None,
    sweeps: Sweeps,
    knowledge: str,
) -> Figure:
    """Draw originals, their reconstructions by the strongest attack on each defence, error maps.

    The caption in `FIGURES` says of which run. `equally_accurate` selects one defence of each
    sweep, and `shown` some if there are still many, but always that of the first sweep.

    Raises:
        FileError: naming a strip that is missing, or whose originals differ from those of another.
    """
    attacks = attacks[attacks["knowledge"] == knowledge]
    strongest = worst_case(attacks)
    names = present(strongest, defences)
    always, titles = [names[0], reference], {name: readable(name) for name in names}
    if sweeps.families:
        names = equally_accurate(names, sweep_points(runs, attacks, sweeps), sweeps)
        first = next(iter(sweeps.families.values()))
        always += [name for name in names if name in first][:1]
        titles |= sweeps.titles()
    ok = strongest[strongest["status"] == "ok"].sort_values("seed").drop_duplicates("defence")
    lowest = {row["defence"]: row for row in records(ok)}
    rows = {name: lowest.get(name) for name in shown(strongest, names, always)}
    finished = [row for row in rows.values() if row is not None]
    if not finished:
        return empty_figure("no defence has a finished result")
    originals, strips = _strips(finished)
    most = max(finished, key=lambda row: float(row["mse"]))["defence"]
    errors = np.abs(originals / 255.0 - strips[most] / 255.0).mean(axis=3)
    highest = errors.max()
    maps = mpl.colormaps["inferno"](errors / max(highest, 1e-9), bytes=True)[..., :3]
    pictures = {"original": originals}
    for name, row in rows.items():
        label = f"{titles[name]}\n{_facts(runs, row)}"
        pictures[label] = strips.get(name, np.full_like(originals, 255))
    pictures[f"error on {titles[most]},\nblack 0, yellow {highest:.2f}"] = maps
    figure = picture_rows(pictures, spacing=1.08)
    figure.suptitle(f"attacker has {readable(knowledge)}", fontsize=9)
    return figure


def shown(
    strongest: pd.DataFrame, names: Sequence[str], always: Collection[str | None]
) -> list[str]:
    """Return at most `MOST` of the names: those to show always, and those with the highest MSE."""
    mse = strongest.groupby("defence")["mse"].mean().fillna(-1)
    kept = sorted(names, key=lambda name: (name not in always, -mse[name]))[:MOST]
    return [name for name in names if name in kept]


def _facts(runs: pd.DataFrame, row: dict[str, Any] | None) -> str:
    if row is None:
        return "failed"
    run = runs[(runs["defence"] == row["defence"]) & (runs["seed"] == row["seed"])]
    mse = marked(f"MSE {significant(row['mse'])}", row["converged"] is False)
    chance = " (chance)" if at_chance(run).item() else ""
    accuracy = f"{100 * run['top1'].item():.1f} % accurate{chance}"
    return f"{accuracy}\n{readable(row['strongest'])}: {mse}"


def _strips(rows: Sequence[dict[str, Any]]) -> tuple[Pictures, dict[str, Pictures]]:
    """Return the originals, which must be the same everywhere, and reconstructions by defence."""
    files = {row["defence"]: AttackFolder(Path(row["folder"])).reconstructions for row in rows}
    read = {name: read_strip(file) for name, file in files.items()}
    originals, _ = next(iter(read.values()))
    for name, (above, _) in read.items():
        if not np.array_equal(originals, above):
            raise FileError(f"{files[name]}: shows other originals; rerun the attack")
    return originals, {name: below for name, (_, below) in read.items()}


def read_strip(path: Path) -> tuple[Pictures, Pictures]:
    """Split a picture into two rows of images (N, H, W, 3); raise FileError if it is unreadable."""
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
    except OSError as error:
        raise FileError(f"{path}: cannot be read as a picture ({error}); rerun it") from error
    side = len(pixels) // 2
    above, below = pixels.reshape(2, side, -1, side, 3).swapaxes(1, 2)
    return above, below


def picture_rows(rows: Mapping[str, Pictures], spacing: float) -> Figure:
    """Draw rows of pictures, each `spacing` times as high, with its name on the left."""
    count = len(next(iter(rows.values())))
    figure, panels = new_figure((WIDTH - _MARGIN) / count * spacing * len(rows), rows=len(rows))
    for panel, (name, pictures) in zip(panels, rows.items(), strict=True):
        side = pictures.shape[1]
        gap = np.full((side, max(1, side // 16), 3), 255, np.uint8)
        pixels = np.hstack([part for picture in pictures for part in (picture, gap)][:-1])
        panel.imshow(pixels, interpolation="nearest")
        panel.set(xticks=[], yticks=[])
        panel.grid(False)
        panel.spines[:].set_visible(False)
        panel.set_ylabel(name, rotation=0, ha="right", va="center")
    return figure
