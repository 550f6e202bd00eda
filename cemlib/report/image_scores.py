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

Runs = Mapping[tuple[str, int], pd.DataFrame]


def read_scores(folder: str) -> pd.DataFrame:
    """Return the scores of every image of an attack, `COLUMNS`, in the order of the file.

    Raises:
        FileError: if the file is missing, damaged, or lacks a column.
    """
    path = Path(folder) / _FILE
    try:
        return pd.read_parquet(path)[[*COLUMNS]]
    except (OSError, ValueError, KeyError) as error:
        raise FileError(f"{path}: cannot be read ({error}); rerun the attack") from error


def scores_by_run(results: pd.DataFrame) -> Runs:
    """Return the scores of the images by defence and seed.

    Args:
        results: one row for each defence and seed, with the folder of its files.

    Raises:
        FileError: if a file is missing, damaged or lacks a column, or two are of different images.
    """
    finished = results[results["status"] == "ok"]
    rows = zip(finished["defence"], finished["seed"], finished["folder"], strict=True)
    read = {
        (str(defence), int(seed), folder): read_scores(folder) for defence, seed, folder in rows
    }
    for (first, one), (second, other) in pairwise((key[2], each) for key, each in read.items()):
        if not other["index"].equals(one["index"]):
            raise FileError(
                f"{second} and {first}: {_FILE} holds different"
                " images; delete the older result and run the study again"
            )
    return {key[:2]: each for key, each in read.items()}


def image_differences(
    runs: Runs, defence: str, reference: str, score: str
) -> NDArray[np.float64] | None:
    """Defence minus reference, (S, N), over the seeds that both have; None where none has."""
    seeds = [seed for name, seed in runs if name == defence and (reference, seed) in runs]
    rows = [
        runs[defence, seed][score].to_numpy(np.float64)
        - runs[reference, seed][score].to_numpy(np.float64)
        for seed in seeds
    ]
    return np.stack(rows) if rows else None
