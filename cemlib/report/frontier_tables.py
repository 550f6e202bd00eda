"""Sweeps in tables: privacy at matched accuracy, and the hypervolume of each curve.

A family is the defences of one sweep; a seed's curve is the worst case on each of them. Where a
training or an attack failed there is no point, and ``n_failed`` says so: the curve goes on between
the others, and the hypervolume can only be smaller for it.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from cemlib.report.frontier import (
    Point,
    along,
    covered_most,
    front,
    hypervolume,
    quarters,
    span,
)
from cemlib.report.statistics import (
    difference_columns,
    holm,
    mean_columns,
    mean_interval,
    paired_difference,
)
from cemlib.report.sweeps import Sweeps
from cemlib.report.tables import counted

FLOOR_MSE = 0.0
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

Seeds = dict[int, float]


def targets(points: pd.DataFrame, sweeps: Sweeps) -> list[float]:
    """Accuracies in % at which privacy is compared: those of the configuration, or three.

    Args:
        points: of one knowledge, as `sweep_points` returns them.
        sweeps: of the study.

    Returns:
        By default the quarters of the stretch that the fronts of most seeds and families cover;
        nothing where no result is finished.
    """
    if sweeps.match_accuracy:
        return list(sweeps.match_accuracy)
    spans = [span(_pairs(curve)) for _, curve in points.groupby(["family", "seed"])]
    stretch = covered_most([found for found in spans if found is not None])
    return [] if stretch is None else quarters(stretch)


def tradeoff_table(points: pd.DataFrame, sweeps: Sweeps) -> pd.DataFrame:
    """Privacy of every family at the same accuracies, read off each seed's curve.

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
    scores = ("mse", "ssim", "unconverged", *sweeps.strengths())
    rows: list[dict[str, Any]] = []
    for knowledge, of_knowledge in _grouped(points, "knowledge"):
        for accuracy in targets(of_knowledge, sweeps):
            found = {
                family: {s: _along(curve, s, accuracy) for s in scores}
                for family, curve in _families(of_knowledge, sweeps)
            }
            late = {name: _flagged(by["unconverged"]) for name, by in found.items()}
            compared = _compared({name: by["mse"] for name, by in found.items()}, late)
            rows += [
                {"knowledge": knowledge, "accuracy": accuracy, "family": family}
                | _counts(of_knowledge, family)
                | {"n_matched": sum(map(math.isfinite, by["mse"].values()))}
                | {"n_unconverged": len(late[family])}
                | _columns(by, sweeps)
                | compared[family]
                for family, by in found.items()
            ]
    return _whole(pd.DataFrame(rows, columns=_tradeoff_columns(sweeps)))


def frontier_table(points: pd.DataFrame, sweeps: Sweeps) -> pd.DataFrame:
    """The hypervolume of every family's curve in points of accuracy times MSE.

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
    for knowledge, of_knowledge in _grouped(points, "knowledge"):
        floor = (_floor(of_knowledge, sweeps), FLOOR_MSE)
        areas = {
            family: {seed: hypervolume(_pairs(one), floor) for seed, one in _seeds(curve)}
            for family, curve in _families(of_knowledge, sweeps)
        }
        late = {
            family: {seed for seed, one in _seeds(curve) if _front(one)["unconverged"].any()}
            for family, curve in _families(of_knowledge, sweeps)
        }
        compared = _compared(areas, late)
        for family, curve in _families(of_knowledge, sweeps):
            rows.append(
                {"knowledge": knowledge, "family": family, "n_unconverged": len(late[family])}
                | _counts(of_knowledge, family)
                | mean_columns("hypervolume", list(areas[family].values()))
                | dict(zip(("floor_accuracy", "floor_mse"), floor, strict=True))
                | {"efficient": _efficient(curve)}
                | compared[family]
            )
    counts = ["knowledge", "family", "n_seeds", "n_failed", "n_unconverged"]
    names = [*counts, "floor_accuracy", "floor_mse"]
    columns = [*names, *_parts("hypervolume"), "efficient", *_COMPARED]
    return _whole(pd.DataFrame(rows, columns=columns))


def _whole(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers of pairs as whole numbers, though the family compared with has none."""
    return table.astype({"n_pairs": "Int64"})


def _grouped(frame: pd.DataFrame, column: str) -> Iterator[tuple[str, pd.DataFrame]]:
    for name in frame[column].unique():
        yield str(name), frame[frame[column] == name]


def _families(points: pd.DataFrame, sweeps: Sweeps) -> Iterator[tuple[str, pd.DataFrame]]:
    for family in sweeps.families:
        yield family, points[points["family"] == family]


def _seeds(curve: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    for seed in sorted(curve["seed"].unique()):
        yield int(seed), curve[curve["seed"] == seed]


def _pairs(curve: pd.DataFrame) -> list[Point]:
    return list(zip(curve["accuracy"].tolist(), curve["mse"].tolist(), strict=True))


def _along(curve: pd.DataFrame, score: str, accuracy: float) -> Seeds:
    """A score of every seed at an accuracy."""
    return {s: along(_pairs(one), one[score].tolist(), accuracy) for s, one in _seeds(curve)}


def _floor(points: pd.DataFrame, sweeps: Sweeps) -> float:
    if sweeps.accuracy_floor is not None:
        return sweeps.accuracy_floor
    return float(points.loc[points["mse"].notna(), "accuracy"].min())


def _efficient(curve: pd.DataFrame) -> str:
    """The members on the front, with the number of seeds."""
    return counted(name for _, one in _seeds(curve) for name in _front(one)["defence"])


def _front(one: pd.DataFrame) -> pd.DataFrame:
    """The efficient points of one seed."""
    return one.iloc[front(_pairs(one))]


def _flagged(values: Seeds) -> set[int]:
    """The seeds at which a flag, interpolated, is not zero: either point beside it has it."""
    return {seed for seed, value in values.items() if value > 0}


def _counts(points: pd.DataFrame, family: str) -> dict[str, int]:
    curve = points[points["family"] == family]
    failed = int(curve[["accuracy", "mse"]].isna().any(axis=1).sum())
    return {"n_seeds": curve["seed"].nunique(), "n_failed": failed}


def _parts(score: str) -> list[str]:
    return [f"{score}_{part}" for part in ("mean", "ci_low", "ci_high")]


def _columns(by_score: Mapping[str, Seeds], sweeps: Sweeps) -> dict[str, float]:
    mse, ssim = (mean_columns(name, list(by_score[name].values())) for name in ("mse", "ssim"))
    means = {f"{s}_mean": mean_interval(list(by_score[s].values())) for s in sweeps.strengths()}
    return mse | ssim | {name: found.mean for name, found in means.items()}


def _tradeoff_columns(sweeps: Sweeps) -> list[str]:
    counts = ["n_seeds", "n_failed", "n_matched", "n_unconverged"]
    names = ["knowledge", "accuracy", "family", *counts]
    strengths = [f"{strength}_mean" for strength in sweeps.strengths()]
    return [*names, *_parts("mse"), *_parts("ssim"), *strengths, *_COMPARED]


def _compared(
    values: Mapping[str, Seeds], late: Mapping[str, set[int]]
) -> dict[str, dict[str, Any]]:
    """Paired differences of every family to the first, over the seeds that have both.

    Args:
        values: a number for each seed of each family.
        late: the seeds of each family that rest on an attack that had not converged.
    """
    first, *others = values
    found, barred = {}, {}
    for family in others:
        seeds = _finite(values[family]) & _finite(values[first])
        ours, theirs = ([values[name][seed] for seed in sorted(seeds)] for name in (family, first))
        found[family] = paired_difference(ours, theirs)
        barred[family] = ", ".join(name for name in (family, first) if late[name] & seeds)
    adjusted = holm([difference.p for difference in found.values()])
    rows: dict[str, dict[str, Any]] = {first: {"reference": first}}
    for (family, d), p_holm in zip(found.items(), adjusted, strict=True):
        columns = {k: v for k, v in difference_columns(d).items() if k in _COMPARED}
        rows[family] = {"reference": first, **columns}
        rows[family] |= {"p_holm": p_holm, "unconverged": barred[family]}
    return rows


def _finite(values: Seeds) -> set[int]:
    return {seed for seed, value in values.items() if math.isfinite(value)}
