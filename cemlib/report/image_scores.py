"""The scores of single images: reading them, and pairing them over seeds and defences."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cemlib.files import FileError

COLUMNS = ("index", "label", "mse", "ssim", "psnr")
_FILE = "per_image.parquet"

Runs = Mapping[tuple[str, int], pd.DataFrame | None]


def read_scores(folder: str) -> pd.DataFrame:
    """The scores of every image of an attack, `COLUMNS` and `recognised`, in the order of the file.

    Raises:
        FileError: if the file is missing, damaged, or lacks a column.
    """
    path = Path(folder) / _FILE
    try:
        found = pd.read_parquet(path)
        return found[[*COLUMNS, *(name for name in ("recognised",) if name in found)]]
    except (OSError, ValueError, KeyError) as error:
        raise FileError(f"{path}: cannot be read ({error}); rerun the attack") from error


def scores_by_run(results: pd.DataFrame) -> Runs:
    """Scores of the images by defence and seed, None where a finished result left no file.

    Args:
        results: one row for each defence and seed, with the folder of its files.

    Raises:
        FileError: if a file is damaged or lacks a column, or two are of different images.
    """
    finished = results[results["status"] == "ok"]
    rows = zip(finished["defence"], finished["seed"], finished["folder"], strict=True)
    found = {(str(defence), int(seed)): _read(folder) for defence, seed, folder in rows}
    there = [each for each in found.values() if each is not None]
    for first, other in pairwise(there):
        if not other["index"].equals(first["index"]):
            raise FileError(
                f"{other.attrs['folder']} and {first.attrs['folder']}: {_FILE} holds different"
                " images; delete the older result and run the study again"
            )
    return found


def image_differences(
    runs: Runs, defence: str, reference: str, score: str
) -> NDArray[np.float64] | None:
    """Defence minus reference, (S, N), over the seeds that both have; None where a file lacks."""
    seeds = [seed for name, seed in runs if name == defence and (reference, seed) in runs]
    rows = []
    for seed in seeds:
        ours, theirs = runs[defence, seed], runs[reference, seed]
        if ours is None or theirs is None:
            return None
        rows.append(ours[score].to_numpy(np.float64) - theirs[score].to_numpy(np.float64))
    return np.stack(rows) if rows else None


def _read(folder: str) -> pd.DataFrame | None:
    if not (Path(folder) / _FILE).is_file():
        return None
    found = read_scores(folder)
    found.attrs["folder"] = folder
    return found
