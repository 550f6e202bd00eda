"""Average over images and seeds, with intervals that hold for other images and seeds."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cemlib.federated.inversion.scoring import SCORES, Row
from cemlib.report.bootstrap import two_level_intervals
from cemlib.report.statistics import mean_interval

Array = NDArray[np.float64]


def summary(seeds: Sequence[Sequence[Row]]) -> list[Row]:
    """Return a row for each defence and attack, in the order of the first seed's rows.

    Args:
        seeds: for each seed the rows of `run_attacks`, of the same images, defences and attacks.

    Returns:
        Rows with `defence`, `attack`, `n_seeds`, `n_images`, `failed` (rows without a result),
        `label_right` (share), and for each score `<score>_mean`, `<score>_ci_low`,
        `<score>_ci_high`: over images and seeds, by `cemlib.report.bootstrap`; for one seed by
        Student's interval over its images. None where a row failed, since the mean of the others
        is another set's, and where a value is infinite.
    """
    return [_row(key, seeds) for key in dict.fromkeys(map(_key, seeds[0]))]


def _row(key: tuple[str, str], seeds: Sequence[Sequence[Row]]) -> Row:
    groups = [[row for row in rows if _key(row) == key] for rows in seeds]
    failed = sum(row["status"] != "ok" for group in groups for row in group)
    found: dict[str, Any] = {"defence": key[0], "attack": key[1], "n_seeds": len(groups)}
    found |= {"n_images": len(groups[0]), "failed": failed}
    right = [row["label_right"] for group in groups for row in group]
    found["label_right"] = None if failed else sum(right) / len(right)
    for score in SCORES:
        found |= _mean(score, groups, failed > 0)
    return found


def _mean(score: str, groups: list[list[Row]], failed: bool) -> dict[str, float | None]:
    names = (f"{score}_mean", f"{score}_ci_low", f"{score}_ci_high")
    if failed:
        return dict.fromkeys(names)
    values = np.array([[row[score] for row in group] for group in groups], dtype=np.float64)
    numbers = (float(values.mean()), *_interval(values))
    return {n: v if math.isfinite(v) else None for n, v in zip(names, numbers, strict=True)}


def _interval(values: Array) -> tuple[float, float]:
    """Return the interval of the mean of values (S, N), by seed and image."""
    if len(values) == 1:
        found = mean_interval(values[0].tolist())
        return found.low, found.high
    return two_level_intervals([values])[0]


def _key(row: Row) -> tuple[str, str]:
    return row["defence"], row["attack"]
