"""Curves of accuracy against privacy, and where to read them.

A sweep is a family of defences that differ in strength. Their means over the seeds are a curve:
points of an accuracy and a privacy, both better when higher. Its front are the points that no other
one beats in both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cemlib.report.worst_case import unconverged, worst_case

Point = tuple[float, float]  # accuracy, privacy
Settings = Mapping[str, bool | int | float | str]
SCORES_OF_POINTS = ("mse", "ssim", "recon_top1", "leakage_nats")
_OF_POINTS = ("knowledge", "defence", "seed", "mse", "ssim", "recon_top1", "unconverged")


@dataclass(frozen=True)
class Sweeps:
    """The sweeps of a study, and how they are to be compared (see the configuration's `report`).

    Attributes:
        families: by name, the settings of each defence by its name.
        match_accuracy: accuracies in % at which privacy is compared; none: one, by `targets`.
    """

    families: Mapping[str, Mapping[str, Settings]]
    match_accuracy: Sequence[float] = ()

    def strengths(self) -> list[str]:
        """Return the keys of the settings that are numbers, in the order of the sweeps."""
        settings = [one for family in self.families.values() for one in family.values()]
        return list(dict.fromkeys(key for one in settings for key in one if _is_number(one[key])))


def sweep_points(runs: pd.DataFrame, attacks: pd.DataFrame, sweeps: Sweeps) -> pd.DataFrame:
    """Return one row per family, knowledge, member and seed: the point that it gives to the curve.

    Args:
        runs: as `collect` returns them.
        attacks: likewise.
        sweeps: of the study.

    Returns:
        ``accuracy`` in %, the ``leakage_nats`` of the run, the other `SCORES_OF_POINTS` of the
        worst case, the swept numbers by their keys; NaN where a result failed. ``unconverged`` is 1
        where the attack had not converged.
    """
    found = runs.set_index(["defence", "seed"])[["top1", "leakage_nats"]].to_dict("index")
    strongest = worst_case(attacks)
    strongest["unconverged"] = unconverged(strongest, "mse").astype(float)
    rows = [
        {
            **{key: row[key] for key in _OF_POINTS},
            **{key: value for key, value in family[row["defence"]].items() if _is_number(value)},
            "family": name,
            "accuracy": 100 * found[row["defence"], row["seed"]]["top1"],
            "leakage_nats": found[row["defence"], row["seed"]]["leakage_nats"],
        }
        for name, family in sweeps.families.items()
        for row in strongest.to_dict("records")
        if row["defence"] in family
    ]
    first = ["family", "accuracy", "leakage_nats"]
    return pd.DataFrame(rows, columns=[*first, *_OF_POINTS, *sweeps.strengths()])


def mean_curve(points: pd.DataFrame) -> pd.DataFrame:
    """Return the means of a family's defences over the seeds that have a result, by their names."""
    there = points.dropna(subset=["accuracy", "mse"])
    return there.groupby("defence", sort=False).mean(numeric_only=True)


def front(points: Sequence[Point]) -> list[int]:
    """Return the places of the Pareto-efficient points, from the least accurate to the most.

    A point is efficient if no other one is at least as good in both and better in one. Of equal
    points the first counts. Points that are not finite (failed runs) are never efficient.

    Example:
        >>> front([(90.0, 0.3), (95.0, 0.1), (92.0, 0.05), (90.0, 0.2)])
        [0, 1]
    """
    finite = [i for i, point in enumerate(points) if all(map(math.isfinite, point))]
    kept: list[int] = []
    for i in sorted(finite, key=lambda i: (-points[i][0], -points[i][1])):
        if not kept or points[i][1] > points[kept[-1]][1]:
            kept.append(i)
    return kept[::-1]


def span(points: Sequence[Point]) -> Point | None:
    """Return the lowest and highest accuracy of the front; None where no point is finite."""
    efficient = front(points)
    return (points[efficient[0]][0], points[efficient[-1]][0]) if efficient else None


def along(points: Sequence[Point], values: Sequence[float], accuracy: float) -> float:
    """Return a quantity of the points at an accuracy, linear between neighbours on the front.

    Args:
        points: of one curve.
        values: one for each point: its privacy, its strength, or another score of the same run.
        accuracy: where to read.

    Returns:
        NaN outside the front's accuracies, for nothing is extrapolated.

    Example:
        >>> points = [(90.0, 0.3), (94.0, 0.1)]
        >>> along(points, [0.3, 0.1], 93.0), along(points, [0.3, 0.1], 95.0)
        (0.15, nan)
    """
    efficient = front(points)
    places = [points[i][0] for i in efficient]
    if not places or not places[0] <= accuracy <= places[-1]:
        return math.nan
    return float(np.interp(accuracy, places, [values[i] for i in efficient]))


def targets(points: pd.DataFrame, sweeps: Sweeps) -> list[float]:
    """Return the accuracies in % at which privacy is compared: those configured, or one.

    Args:
        points: of one knowledge, as `sweep_points` returns them.
        sweeps: of the study.

    Returns:
        By default the middle of the accuracies that all mean curves cover; nothing where they
        share none.
    """
    if sweeps.match_accuracy:
        return list(sweeps.match_accuracy)
    found = (span(pairs(mean_curve(family))) for _, family in points.groupby("family"))
    ends = [list(pair) for pair in found if pair is not None]
    low, high = max((e[0] for e in ends), default=1.0), min((e[1] for e in ends), default=0.0)
    return [(low + high) / 2] if low <= high else []


def pairs(curve: pd.DataFrame) -> list[Point]:
    """Return accuracy and MSE of the rows of `sweep_points`."""
    return list(zip(curve["accuracy"].tolist(), curve["mse"].tolist(), strict=True))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
