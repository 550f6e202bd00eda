"""What the scripts of the page choose pictures from: every attack with its images' scores."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cemlib.marks import marked
from cemlib.report.image_scores import COLUMNS, read_scores
from cemlib.report.page.pictures import Album
from cemlib.report.page.scores import (
    QUANTILES,
    extreme_rows,
    first_public,
    shown_rows,
)
from cemlib.report.tables import records
from cemlib.report.verdicts import unconverged
from cemlib.report.worst_case import worst_case

PUBLIC = "public_data"
LIMIT = 16_000_000  # bytes of pictures in a page that can still be mailed and opened
_DIGITS = 4  # significant digits of the scores of single images


def gallery(
    attacks: pd.DataFrame, classes: Sequence[str], side: int, limit: int = LIMIT
) -> dict[str, Any]:
    """The attacks, what is the strongest of them, and the pictures they refer to by number.

    Args:
        attacks: as `collect` returns them.
        classes: names of the classes.
        side: of the images, in pixels.
        limit: after so many bytes of pictures no further seed is put in.

    Raises:
        FileError: naming a strip or a file of scores that is missing or damaged.
    """
    flagged = attacks.assign(unconverged=unconverged(attacks, "mse"))
    album, shown, pictured = Album(side), list[dict[str, Any]](), list[int]()
    for seed in sorted({int(seed) for seed in attacks["seed"]}):
        if not pictured or album.size <= limit:
            shown += _of_seed(list(records(flagged[flagged["seed"] == seed])), album)
            pictured.append(seed)
    return {
        "attacks": shown,
        "pictured": pictured,
        "strongest": _strongest(attacks),
        "classes": list(classes),
        "pictures": album.encoded(),
    }


def _of_seed(rows: Sequence[Mapping[str, Any]], album: Album) -> list[dict[str, Any]]:
    scores = {row["folder"]: read_scores(row["folder"]) for row in rows if row["status"] == "ok"}
    public = [scores[f] for row in rows if (f := row["folder"]) in scores and _public(row)]
    first = first_public(public)
    return [_attack(row, scores.get(row["folder"]), album, first) for row in rows]


def rounded(value: float, digits: int = _DIGITS) -> float | None:
    """A number with so many significant digits; None where it is none, or infinite."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _public(row: Mapping[str, Any]) -> bool:
    return bool(row["knowledge"] == PUBLIC)


def _attack(
    row: Mapping[str, Any], scores: pd.DataFrame | None, album: Album, first: int | None
) -> dict[str, Any]:
    named = {key: row[key] for key in ("defence", "seed", "attack", "knowledge", "reason")}
    if scores is None:
        return named | {"shown": [], "extremes": []}
    folder = Path(row["folder"])
    shown, ends = (_strip(folder / name, album) for name in ("reconstructions.png", "extremes.png"))
    mark = marked("", row["unconverged"])
    return named | {
        "mean": [rounded(float(row[score])) for score in ("mse", "ssim", "psnr")],
        "mark": mark,
        "images": len(scores),
        "quantiles": [rounded(q) for q in np.quantile(scores["mse"], QUANTILES).tolist()],
        "shown": _images(shown, scores, shown_rows(scores, first, len(shown)), mark),
        "extremes": _images(ends, scores, extreme_rows(scores, len(ends)), mark),
    }


def _strip(path: Path, album: Album) -> list[tuple[int, int]]:
    """The pictures of a strip; older results have none of the extremes."""
    return album.add_strip(path) if path.is_file() else []


def _images(
    pictures: Sequence[tuple[int, int]], scores: pd.DataFrame, rows: Sequence[int], mark: str
) -> list[dict[str, Any]]:
    """Pictures with the scores of their rows, without scores where no rows are known."""
    known: Iterable[dict[str, Any]] = (
        [_scores(row) for row in records(scores.iloc[list(rows)])] if rows else [{}] * len(pictures)
    )
    return [
        {"original": original, "found": found, "mark": mark} | row
        for (original, found), row in zip(pictures, known, strict=True)
    ]


def _scores(row: Mapping[str, Any]) -> dict[str, Any]:
    index, label, *values = (row[name] for name in COLUMNS)
    kept: dict[str, Any] = {"index": int(index), "label": int(label)}
    kept |= dict(zip(COLUMNS[2:], map(rounded, values), strict=True))
    return kept | ({"recognised": bool(row["recognised"])} if "recognised" in row else {})


def _strongest(attacks: pd.DataFrame) -> list[dict[str, Any]]:
    keys = ("defence", "seed", "knowledge", "strongest")
    return [{key: row[key] for key in keys} for row in records(worst_case(attacks))]
