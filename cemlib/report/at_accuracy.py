"""Tabulate the privacy of a study's families at the same accuracies.

The mean curve of a family is read at an accuracy, and a jackknife over the seeds says how far to
trust the number. With n seeds, t read off the curve of all and t(s) off that without seed s,

    pseudo-value of s = n t - (n - 1) t(s), shifted so that the mean of all is t

The mean, Student-t interval and paired tests are those of the n pseudo-values. So every seed counts
at every accuracy, even one that is more accurate at all strengths. The shift leaves out the
jackknife's bias correction, which would carry t beyond all seeds where a curve has a kink.

Source: Tukey, "Bias and confidence in not-quite large samples", Annals of Mathematical Statistics
29, 1958.
"""

import math

import numpy as np
import pandas as pd

from cemlib.report.comparisons import with_verdicts
from cemlib.report.frontier import SCORES_OF_POINTS, Sweeps, along, mean_curve, targets
from cemlib.report.statistics import mean_columns, paired_difference, student_quantile
from cemlib.report.worst_case import Row

POWER = 0.8
_COMPARED = ("n_pairs", "difference", "ci_low", "ci_high", "p")


def tradeoff_table(points: pd.DataFrame, sweeps: Sweeps) -> pd.DataFrame:
    """Return the privacy of every family at the same accuracies, from `sweep_points`.

    Returns:
        One row per knowledge, accuracy and family. The means and 95 % intervals of the scores are
        NaN where the mean curve, or that of all seeds but one, does not reach the accuracy;
        ``<setting>_mean`` is the strength at which it does. ``n_failed`` results are not on the
        curve; on ``n_unconverged`` seeds an attack had not converged on one of the defences between
        which the curve, or that of all seeds but one, was read. The paired ``difference`` in MSE is
        to the first family; Holm's correction is over all rows. ``detectable`` is the difference
        that the test finds with a probability of 80 %, given the spread and without Holm's
        correction, which needs a larger one. ``unconverged`` names the sides with such a seed.
    """
    rows: list[Row] = []
    for knowledge, curves in points.groupby("knowledge", sort=False):
        for accuracy in targets(curves, sweeps):
            at = {"knowledge": knowledge, "accuracy": accuracy}
            rows += [at | row for row in _families_at(accuracy, curves, sweeps)]
    table = pd.DataFrame(rows, columns=_columns(sweeps)).astype({"n_pairs": "Int64"})
    return with_verdicts(table, table["p"].notna())


def jackknifed(points: pd.DataFrame, columns: list[str], accuracy: float) -> pd.DataFrame:
    """Return the pseudo-values of each seed, one row per seed, read off a family's curve.

    The pseudo-value of a single seed is the value itself. A seed whose results all failed has none.
    A column is NaN if one of its curves does not reach the accuracy, and infinite if the quantity
    is. The points must be those of one family and knowledge; the accuracy is in %.
    """
    points = points.dropna(subset=["accuracy", "mse"])
    seeds = sorted(points["seed"].unique())
    n, whole = len(seeds), _read(points, columns, accuracy)
    left = [_read(points[points["seed"] != seed], columns, accuracy) for seed in seeds if n > 1]
    values = [n * whole - (n - 1) * without for without in left] or [whole] * n
    found = pd.DataFrame(values, index=seeds, columns=columns, dtype=float)
    found += whole - found.mean()
    found = found.where(found.abs().lt(np.inf).all(), axis=1)
    found.loc[:, np.isinf(whole)] = np.inf
    return found


def detectable(half_width: float, pairs: int) -> float:
    """Return the mean difference that a paired t-test at 5 % finds with about 80 % probability.

    It follows from half the width of the 95 % interval; NaN where there is none. The t
    distribution stands in for the noncentral one, by which the probability is 77 % with 3 pairs,
    79 % with 5 and 80 % with 8.

    Example:
        >>> round(detectable(1.0, 5), 3)
        1.339
    """
    if pairs < 2:
        return math.nan
    critical = student_quantile(pairs - 1)
    return half_width / critical * (critical + student_quantile(pairs - 1, POWER))


def _columns(sweeps: Sweeps) -> list[str]:
    scores = [
        f"{score}_{end}" for score in SCORES_OF_POINTS for end in ("mean", "ci_low", "ci_high")
    ]
    strengths = [f"{name}_mean" for name in sweeps.strengths()]
    counts = ["n_seeds", "n_failed", "n_unconverged"]
    first = ["knowledge", "accuracy", "family", *counts, *scores, *strengths, "reference"]
    return [*first, *_COMPARED, "detectable", "unconverged"]


def _families_at(accuracy: float, curves: pd.DataFrame, sweeps: Sweeps) -> list[Row]:
    """Return the rows of one knowledge and accuracy; `tradeoff_table` selects their columns."""
    families = {name: curves[curves["family"] == name] for name in sweeps.families}
    columns = [*SCORES_OF_POINTS, *sweeps.strengths()]
    values = {name: jackknifed(points, columns, accuracy) for name, points in families.items()}
    late = {name: _late_seeds(points, accuracy) for name, points in families.items()}
    reference, rows = next(iter(families)), []
    for name, points in families.items():
        row: Row = {
            "family": name,
            "n_seeds": points["seed"].nunique(),
            "n_failed": int(points[["accuracy", "mse"]].isna().any(axis=1).sum()),
            "n_unconverged": late[name],
            "reference": reference,
            "unconverged": "",
        }
        for column in columns:
            row |= mean_columns(column, values[name][column])
        if name != reference:
            row |= _difference(values[name]["mse"], values[reference]["mse"])
            row["unconverged"] = ", ".join(side for side in (name, reference) if late[side])
        rows.append(row)
    return rows


def _read(points: pd.DataFrame, columns: list[str], accuracy: float) -> "pd.Series[float]":
    curve = mean_curve(points)
    return pd.Series({name: along(curve, curve[name].tolist(), accuracy) for name in columns})


def _late_seeds(points: pd.DataFrame, accuracy: float) -> int:
    """Count the seeds with an unconverged attack on a defence that a curve is read from.

    The curves are that of all seeds, and those without one seed, which decide the interval.
    """
    parts = [points, *(points[points["seed"] != seed] for seed in points["seed"].unique())]
    late: set[int] = set()
    for part in parts:
        quoted = part["defence"].isin(_neighbours(mean_curve(part), accuracy))
        late |= {*part.loc[quoted & (part["unconverged"] > 0), "seed"]}
    return len(late)


def _neighbours(curve: pd.DataFrame, accuracy: float) -> list[str]:
    """Return the defences between which a curve is read."""
    names = curve.index.to_series()
    return [name for name in names if along(curve, [*names.eq(name) * 1.0], accuracy) > 0]


def _difference(ours: "pd.Series[float]", theirs: "pd.Series[float]") -> Row:
    """Return the paired difference over the seeds that both sides have, as columns."""
    both = pd.concat([ours, theirs], axis=1, join="inner").dropna()
    found = paired_difference(*(both.iloc[:, side].tolist() for side in (0, 1)))
    half, pairs = found["ci_high"] - found["difference"], int(found["n_pairs"])
    return found | {"detectable": detectable(half, pairs)}
