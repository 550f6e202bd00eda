"""Tabulate the privacy of a study's families at the same accuracies.

A family's mean curve is read at an accuracy. The intervals and paired tests are Student's on the n
pseudo-values of a jackknife over the seeds: with t read off the curve of all, t(s) without seed s,

    pseudo-value of s = n t - (n - 1) t(s), shifted so that the mean of all is t

So every seed counts at every accuracy, even one that is more accurate at all strengths. The shift
leaves out the jackknife's bias correction, which would carry t beyond all seeds at a curve's kink.

Source: Tukey, "Bias and confidence in not-quite large samples", Annals of Mathematical Statistics
29, 1958.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cemlib.report.comparisons import with_verdicts
from cemlib.report.frontier import SCORES_OF_POINTS, Sweeps, along, mean_curve, targets
from cemlib.report.statistics import mean_columns, paired_difference, student_quantile
from cemlib.report.worst_case import Row

POWER = 0.8


def tradeoff_table(points: pd.DataFrame, sweeps: Sweeps) -> pd.DataFrame:
    """Return the privacy of every family at the same accuracies, from `sweep_points`.

    Returns:
        One row per knowledge, accuracy and family. The means and 95 % intervals of the scores are
        NaN where the mean curve, or that of all seeds but one, does not reach the accuracy;
        ``<setting>_mean`` is the strength at which it does. Of the ``n_failed`` failed results,
        those of a defence that the curve is read from remove their seeds from the curve and from
        ``n_seeds``. On ``n_unconverged`` seeds an attack had not converged on a defence that the
        curve, or that of all seeds but one, is read from; ``n_unconverged_recon`` counts the same
        for the attack that ``recon_top1`` is quoted from. The paired ``difference`` in MSE is from
        the first family, on the seeds that both have; ``unconverged`` names its sides that rest on
        such a seed. ``detectable`` is the difference that the test finds with a probability of
        80 % before Holm's correction, which is over all rows (see `with_verdicts`).
    """
    rows: list[Row] = []
    for knowledge, there in points.groupby("knowledge", sort=False):
        families = {name: Curves.of(there[there["family"] == name]) for name in sweeps.families}
        for accuracy in targets(there, sweeps):
            at = {"knowledge": knowledge, "accuracy": accuracy}
            rows += [at | row for row in _families_at(accuracy, families, sweeps)]
    columns = _columns(sweeps)
    table = pd.DataFrame(rows, columns=columns).astype({"n_pairs": "Int64", "at_chance": bool})
    return with_verdicts(table, table["p"].notna())


@dataclass(frozen=True)
class Curves:
    """The mean curves of a family's `sweep_points`, for one knowledge.

    `without` has, for each seed with a result, the curve of all other seeds.
    """

    points: pd.DataFrame
    whole: pd.DataFrame
    without: dict[int, pd.DataFrame]

    @classmethod
    def of(cls, points: pd.DataFrame) -> "Curves":
        """Return the curves of a family's points."""
        seeds = sorted(points.dropna(subset=["accuracy", "mse"])["seed"].unique())
        without = {seed: mean_curve(points[points["seed"] != seed]) for seed in seeds}
        return cls(points, mean_curve(points), without)

    def at(self, accuracy: float) -> "Curves":
        """Return the curves without the seeds that failed on a defence from which they are read.

        Such a seed would count as an estimate that agrees exactly with the mean.
        """
        failed = self.points[_failed(self.points)]
        read = failed["defence"].isin(_neighbours(self.whole, accuracy))
        if not read.any():
            return self
        partial = self.points["seed"].isin(failed.loc[read, "seed"])
        return Curves.of(self.points[~partial]).at(accuracy)

    def jackknifed(self, columns: list[str], accuracy: float) -> pd.DataFrame:
        """Return the pseudo-values at an accuracy in %, one row per seed.

        That of a single seed is the value itself. A column is NaN if one of its curves does not
        reach the accuracy, and infinite if the quantity is.
        """
        n, whole = len(self.without), _read(self.whole, columns, accuracy)
        left = [_read(curve, columns, accuracy) for curve in self.without.values() if n > 1]
        values = [n * whole - (n - 1) * without for without in left] or [whole] * n
        found = pd.DataFrame(values, index=[*self.without], columns=columns, dtype=float)
        found += whole - found.mean()
        found.loc[:, ~np.isfinite(found).all()] = np.nan
        found.loc[:, np.isinf(whole)] = np.inf
        return found

    def late_seeds(self, accuracy: float, flag: str = "unconverged") -> int:
        """Count the seeds that have a flag on a defence that a curve is read from."""
        late, found = self.points[self.points[flag] > 0], set[int]()
        curves = [(None, self.whole), *self.without.items()] if len(late) else []
        for left_out, curve in curves:
            read = late["defence"].isin(_neighbours(curve, accuracy)) & (late["seed"] != left_out)
            found |= {*late.loc[read, "seed"]}
        return len(found)


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
    counts = ["n_seeds", "n_failed", "n_unconverged", "n_unconverged_recon"]
    first = ["knowledge", "accuracy", "family", *counts, *scores, *strengths, "reference"]
    return [*first, *paired_difference([], []), "detectable", "unconverged", "at_chance"]


def _families_at(accuracy: float, families: dict[str, Curves], sweeps: Sweeps) -> list[Row]:
    """Return the rows of one knowledge and accuracy; `tradeoff_table` selects their columns."""
    columns = [*SCORES_OF_POINTS, *sweeps.strengths()]
    there = {name: each.at(accuracy) for name, each in families.items()}
    values = {name: each.jackknifed(columns, accuracy) for name, each in there.items()}
    reference, rows = next(iter(families)), []
    for name, curves in families.items():
        row: Row = {
            "family": name,
            "n_seeds": there[name].points["seed"].nunique(),
            "n_failed": int(_failed(curves.points).sum()),
            "n_unconverged": there[name].late_seeds(accuracy),
            "n_unconverged_recon": there[name].late_seeds(accuracy, "unconverged_recon"),
            "reference": reference,
            "unconverged": "",
            "at_chance": False,
        }
        for column in columns:
            row |= mean_columns(column, values[name][column])
        if name != reference:
            row |= _difference({side: there[side] for side in (name, reference)}, accuracy)
        rows.append(row)
    return rows


def _failed(points: pd.DataFrame) -> "pd.Series[bool]":
    return points[["accuracy", "mse"]].isna().any(axis=1)


def _read(curve: pd.DataFrame, columns: list[str], accuracy: float) -> "pd.Series[float]":
    return pd.Series({name: along(curve, name, accuracy) for name in columns})


def _neighbours(curve: pd.DataFrame, accuracy: float) -> list[str]:
    """Return the defences between which a curve is read."""
    reached = curve["accuracy"].to_numpy()  # ascending, without repetitions
    if not len(reached) or not reached[0] <= accuracy <= reached[-1]:
        return []
    above = int(reached.searchsorted(accuracy))
    return curve.index[above if reached[above] == accuracy else above - 1 : above + 1].tolist()


def _paired(ours: Curves, theirs: Curves, accuracy: float) -> tuple[Curves, Curves]:
    """Return both sides on the seeds that both have where they are read."""
    # Without some seeds a curve may be read from other defences, some of whose results failed.
    while ours.without.keys() != theirs.without.keys():
        shared = ours.without.keys() & theirs.without.keys()
        kept = [each.points[each.points["seed"].isin(shared)] for each in (ours, theirs)]
        ours, theirs = (Curves.of(points).at(accuracy) for points in kept)
    return ours, theirs


def _difference(sides: Mapping[str, Curves], accuracy: float) -> Row:
    """Return the paired difference in MSE between two sides, by their names, as columns."""
    ours, theirs = sides.values()
    kept = _paired(ours, theirs, accuracy)
    late = (name for name, each in zip(sides, kept, strict=True) if each.late_seeds(accuracy))
    values = [each.jackknifed(["mse"], accuracy) for each in kept]
    both = pd.concat(values, axis=1).dropna()
    found = paired_difference(*(both.iloc[:, side].tolist() for side in (0, 1)))
    half, pairs = found["ci_high"] - found["difference"], int(found["n_pairs"])
    found["detectable"] = detectable(half, pairs)
    found["at_chance"] = any(each.late_seeds(accuracy, "at_chance") for each in kept)
    return found | {"unconverged": ", ".join(late)}
