"""Privacy of the families of a study at the same accuracies, in a table.

A family's mean curve is read at an accuracy, and a jackknife over the seeds says how far to trust
the number. With n seeds, t read off the curve of all and t(s) off that without seed s,

    pseudo-value of s = n t - (n - 1) t(s)

Mean, Student-t interval and paired tests are those of the n pseudo-values. So every seed counts at
every accuracy, also one that is more accurate than it at all strengths.

Source: Tukey, "Bias and confidence in not-quite large samples", Annals of Mathematical Statistics
29, 1958.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t

from cemlib.report.comparisons import verdicts
from cemlib.report.frontier import SCORES_OF_POINTS, Sweeps, along, mean_curve, pairs, targets
from cemlib.report.statistics import (
    difference_columns,
    holm,
    mean_columns,
    mean_interval,
    paired_difference,
)

POWER = 0.8
_COMPARED = ("n_pairs", "difference", "ci_low", "ci_high", "p")

Row = dict[str, Any]


def tradeoff_table(points: pd.DataFrame, sweeps: Sweeps) -> pd.DataFrame:
    """Return the privacy of every family at the same accuracies.

    Args:
        points: as `cemlib.report.frontier.sweep_points` returns them.
        sweeps: of the study.

    Returns:
        One row per knowledge, accuracy and family. The means and 95 % intervals of the scores are
        NaN where the mean curve, or that without some seed, does not reach the accuracy;
        ``<setting>_mean`` is the strength that it takes. ``n_failed`` results are no points;
        ``n_unconverged`` seeds have an attack that had not converged on a defence between which
        the curve was read. The MSE's paired ``difference`` is to the first family; Holm's
        correction is over all rows. ``detectable`` is the difference that the test finds with a
        probability of 80 %, given the spread. ``unconverged`` names the sides with such a seed.
    """
    rows: list[Row] = []
    for knowledge, curves in points.groupby("knowledge", sort=False):
        for accuracy in targets(curves, sweeps):
            at = {"knowledge": knowledge, "accuracy": accuracy}
            rows += [at | row for row in _at(accuracy, curves, sweeps)]
    table = pd.DataFrame(rows, columns=_columns(sweeps)).astype({"n_pairs": "Int64"})
    table["p_holm"] = holm(table["p"].tolist())
    found = verdicts(table["difference"], table["p_holm"], table["unconverged"] != "")
    table["verdict"] = np.where(table["p_holm"].notna(), found, "")
    return table


def jackknifed(points: pd.DataFrame, number: Callable[[pd.DataFrame], float]) -> dict[int, float]:
    """Return the pseudo-value of each seed, for a number of a family's mean curve.

    All are NaN where one of them is not finite; of a single seed it is the number itself.
    """
    seeds, whole = sorted(points["seed"].unique()), number(mean_curve(points))
    n = len(seeds)
    left = [number(mean_curve(points[points["seed"] != seed])) for seed in seeds if n > 1]
    found = [n * whole - (n - 1) * without for without in left] or [whole] * n
    return dict(
        zip(seeds, found if all(map(math.isfinite, found)) else [math.nan] * n, strict=True)
    )


def detectable(half_width: float, pairs: int) -> float:
    """Return the mean difference that a paired t test at 5 % finds with 80 % probability.

    By the t distribution in place of the noncentral one; NaN where there is no interval.

    Args:
        half_width: of the 95 % interval of the differences.
        pairs: differences there are.

    Example:
        >>> round(detectable(1.0, 5), 3)
        1.339
    """
    if pairs < 2:
        return math.nan
    critical = t.ppf(0.975, pairs - 1)
    return float(half_width / critical * (critical + t.ppf(POWER, pairs - 1)))


def _columns(sweeps: Sweeps) -> list[str]:
    scores = [
        f"{score}_{end}" for score in SCORES_OF_POINTS for end in ("mean", "ci_low", "ci_high")
    ]
    strengths = [f"{name}_mean" for name in sweeps.strengths()]
    counts = ["n_seeds", "n_failed", "n_unconverged"]
    first = ["knowledge", "accuracy", "family", *counts, *scores, *strengths, "reference"]
    return [*first, *_COMPARED, "detectable", "unconverged"]


def _at(accuracy: float, curves: pd.DataFrame, sweeps: Sweeps) -> list[Row]:
    """Return the rows of one knowledge and accuracy."""
    families = {name: curves[curves["family"] == name] for name in sweeps.families}
    late = {name: _late_seeds(points, accuracy) for name, points in families.items()}
    errors = {name: _read(points, "mse", accuracy) for name, points in families.items()}
    reference, rows = next(iter(families)), []
    for name, points in families.items():
        scores = {s: _read(points, s, accuracy).values() for s in SCORES_OF_POINTS}
        strengths = {s: _read(points, s, accuracy).values() for s in sweeps.strengths()}
        row: Row = {
            "family": name,
            "n_seeds": points["seed"].nunique(),
            "n_failed": int(points[["accuracy", "mse"]].isna().any(axis=1).sum()),
            "n_unconverged": late[name],
            "reference": reference,
            "unconverged": "",
            **{f"{key}_mean": mean_interval([*values]).mean for key, values in strengths.items()},
        }
        for score, values in scores.items():
            row |= mean_columns(score, values)
        if name != reference:
            row |= _difference(errors[name], errors[reference])
            row["unconverged"] = ", ".join(side for side in (name, reference) if late[side])
        rows.append(row)
    return rows


def _read(points: pd.DataFrame, score: str, accuracy: float) -> dict[int, float]:
    return jackknifed(points, partial(_read_off, score=score, accuracy=accuracy))


def _read_off(curve: pd.DataFrame, score: str, accuracy: float) -> float:
    return along(pairs(curve), curve[score].tolist(), accuracy)


def _late_seeds(points: pd.DataFrame, accuracy: float) -> int:
    """Count the seeds with an unconverged attack on a defence between which the curve is read."""
    curve = mean_curve(points)
    late = points[points["unconverged"] > 0].groupby("seed")["defence"]
    flagged = (curve.index.isin(names).astype(float).tolist() for _, names in late)
    return sum(along(pairs(curve), flags, accuracy) > 0 for flags in flagged)


def _difference(ours: dict[int, float], theirs: dict[int, float]) -> Row:
    """Return the paired difference over the seeds of both, as columns."""
    seeds = [seed for seed in ours if seed in theirs and math.isfinite(ours[seed] + theirs[seed])]
    found = paired_difference([ours[s] for s in seeds], [theirs[s] for s in seeds])
    row: Row = {k: v for k, v in difference_columns(found).items() if k in _COMPARED}
    return row | {"detectable": detectable(found.high - found.mean, found.n)}
