"""Sweeps in tables: privacy at matched accuracy, and the hypervolume of each curve.

A seed's curve is the worst case on each defence of a sweep. Where a training or an attack failed
there is no point, and ``n_failed`` says so: the curve goes on between the others, and the
hypervolume can only be smaller for it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from cemlib.report.frontier import Point, Sweeps, along, front, hypervolume, pairs, targets
from cemlib.report.statistics import (
    difference_columns,
    holm,
    mean_columns,
    mean_interval,
    paired_difference,
)
from cemlib.report.tables import counted

FLOOR_MSE = 0.0
_COUNTS = ("n_seeds", "n_failed")
_COMPARED = (
    "reference",
    "n_pairs",
    "difference",
    "ci_low",
    "ci_high",
    "p",
    "p_holm",
    "unconverged",
)


def tradeoff_table(points: pd.DataFrame, sweeps: Sweeps) -> pd.DataFrame:
    """Return the privacy of every family at the same accuracies, read off each seed's curve.

    Args:
        points: as `sweep_points` returns them.
        sweeps: of the study.

    Returns:
        One row per knowledge, accuracy and family. The curve of ``n_matched`` of ``n_seeds`` seeds
        reaches the accuracy; means and 95 % t intervals are over those, ``<setting>_mean`` is the
        strength that it takes. ``n_unconverged`` seeds are read off beside a point whose attack had
        not converged. The MSE's paired ``difference`` is to the first family, over the seeds of
        both; Holm's correction is over the families at that accuracy. No verdict may be drawn
        where ``unconverged`` names a side of the difference that has such a seed.
    """
    strengths, rows = sweeps.strengths(), list[dict[str, Any]]()
    for knowledge, curves in points.groupby("knowledge", sort=False):
        for accuracy in targets(curves, sweeps):
            read = {
                score: _by_seed(curves, sweeps, partial(_read_off, score=score, accuracy=accuracy))
                for score in ("mse", "ssim", "unconverged", *strengths)
            }
            late = read["unconverged"] > 0  # interpolated: either point beside it has the flag
            compared = _compared(read["mse"], late)
            for family in sweeps.families:
                of_family = {score: values[family] for score, values in read.items()}
                rows.append(
                    {"knowledge": knowledge, "accuracy": accuracy, "family": family}
                    | _counts(curves, family)
                    | {"n_matched": int(of_family["mse"].notna().sum())}
                    | {"n_unconverged": int(late[family].sum())}
                    | mean_columns("mse", of_family["mse"])
                    | mean_columns("ssim", of_family["ssim"])
                    | {f"{name}_mean": mean_interval([*of_family[name]]).mean for name in strengths}
                    | compared[family]
                )
    counts = [*_COUNTS, "n_matched", "n_unconverged"]
    means = [*_parts("mse"), *_parts("ssim"), *(f"{name}_mean" for name in strengths)]
    return _whole(rows, ["knowledge", "accuracy", "family", *counts, *means, *_COMPARED])


def frontier_table(points: pd.DataFrame, sweeps: Sweeps) -> pd.DataFrame:
    """Return the hypervolume of every family's curve in points of accuracy times MSE.

    Args:
        points: as `sweep_points` returns them.
        sweeps: of the study.

    Returns:
        One row per knowledge and family. The reference point is (``floor_accuracy``,
        ``floor_mse``), the same for all families; ``efficient`` counts in how many seeds a defence
        lies on its family's front. ``n_unconverged`` seeds have a point on it whose attack had not
        converged. Differences as in `tradeoff_table`.
    """
    rows: list[dict[str, Any]] = []
    for knowledge, curves in points.groupby("knowledge", sort=False):
        lowest = curves.loc[curves["mse"].notna(), "accuracy"].min()
        floor = lowest if sweeps.accuracy_floor is None else sweeps.accuracy_floor
        areas = _by_seed(curves, sweeps, partial(_area, floor=(floor, FLOOR_MSE)))
        late = _by_seed(curves, sweeps, lambda one: float(_front(one)["unconverged"].any()))
        compared = _compared(areas, late > 0)
        rows += [
            {"knowledge": knowledge, "family": family, **_counts(curves, family)}
            | {"n_unconverged": int((late[family] > 0).sum())}
            | {"floor_accuracy": floor, "floor_mse": FLOOR_MSE}
            | mean_columns("hypervolume", areas[family])
            | {"efficient": _efficient(curves, family)}
            | compared[family]
            for family in sweeps.families
        ]
    names = ["knowledge", "family", *_COUNTS, "n_unconverged", "floor_accuracy", "floor_mse"]
    return _whole(rows, [*names, *_parts("hypervolume"), "efficient", *_COMPARED])


def _by_seed(
    points: pd.DataFrame, sweeps: Sweeps, number: Callable[[pd.DataFrame], float]
) -> pd.DataFrame:
    """Return a number of every curve, by seed and family."""
    families = {name: points[points["family"] == name].groupby("seed") for name in sweeps.families}
    found = {name: {seed: number(one) for seed, one in curves} for name, curves in families.items()}
    return pd.DataFrame(found, columns=[*families], dtype=float).sort_index()


def _read_off(curve: pd.DataFrame, score: str, accuracy: float) -> float:
    return along(pairs(curve), curve[score].tolist(), accuracy)


def _area(curve: pd.DataFrame, floor: Point) -> float:
    return hypervolume(pairs(curve), floor)


def _front(curve: pd.DataFrame) -> pd.DataFrame:
    return curve.iloc[front(pairs(curve))]


def _efficient(points: pd.DataFrame, family: str) -> str:
    """Return the members on a family's fronts, with the number of seeds."""
    curves = points[points["family"] == family].groupby("seed")
    return counted(name for _, one in curves for name in _front(one)["defence"])


def _counts(points: pd.DataFrame, family: str) -> dict[str, int]:
    curve = points[points["family"] == family]
    failed = int(curve[["accuracy", "mse"]].isna().any(axis=1).sum())
    return {"n_seeds": curve["seed"].nunique(), "n_failed": failed}


def _compared(values: pd.DataFrame, late: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return paired differences of every family to the first, over the seeds that have both.

    Args:
        values: a number for each seed and family.
        late: whether it rests on an attack that had not converged.
    """
    first, *others = values.columns
    rows: dict[str, dict[str, Any]] = {first: {"reference": first}}
    for family in others:
        ours, theirs = values[family].to_numpy(), values[first].to_numpy()
        both = np.isfinite(ours) & np.isfinite(theirs)
        found = paired_difference(ours[both].tolist(), theirs[both].tolist())
        barred = ", ".join(name for name in (family, first) if late[name][both].any())
        columns = {k: v for k, v in difference_columns(found).items() if k in _COMPARED}
        rows[family] = {"reference": first, **columns, "unconverged": barred}
    for family, p_holm in zip(others, holm([rows[name]["p"] for name in others]), strict=True):
        rows[family]["p_holm"] = p_holm
    return rows


def _parts(score: str) -> list[str]:
    return [f"{score}_{part}" for part in ("mean", "ci_low", "ci_high")]


def _whole(rows: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    """Return rows with whole numbers of pairs, though the family compared with has none."""
    return pd.DataFrame(rows, columns=columns).astype({"n_pairs": "Int64"})
