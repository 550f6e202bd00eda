"""Curves of accuracy against privacy, and their value at an accuracy.

A sweep is a family of defences that differ in strength. Its curve joins the means of the defences
over the seeds: those that are Pareto-efficient in accuracy and worst-case MSE.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from cemlib.records.scores import IDENTIFICATION
from cemlib.report.style import readable
from cemlib.report.tables import at_chance, records
from cemlib.report.worst_case import unconverged, worst_case

Settings = Mapping[str, bool | int | float | str]
SCORES_OF_POINTS = ("mse", "ssim", "recon_top1", "leakage_nats")
_FLAGS = {"unconverged": "mse", "unconverged_recon": IDENTIFICATION}
_OF_POINTS = ("knowledge", "defence", "seed", "mse", "ssim", "recon_top1", *_FLAGS, "at_chance")


@dataclass(frozen=True)
class Sweeps:
    """The sweeps of a study, and the accuracies at which they are compared.

    Attributes:
        families: for each sweep by name, the settings of its defences by their names.
        match_accuracy: accuracies in % from the configuration; if empty, `targets` chooses one.
    """

    families: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    match_accuracy: Sequence[float] = ()

    def strengths(self) -> list[str]:
        """Return the keys of the settings that are numbers, in the order of the sweeps."""
        settings = [one for family in self.families.values() for one in family.values()]
        return list(dict.fromkeys(key for one in settings for key in _numbers(one)))

    def titles(self) -> dict[str, str]:
        """Return for each defence its sweep and its settings, ``noise, σ 0.2``."""
        return {
            name: f"{readable(family)}, {symbols(settings)}"
            for family, defences in self.families.items()
            for name, settings in defences.items()
        }


def symbols(settings: Settings) -> str:
    """Return the settings of a defence in short: ``λ 16, σ 0.2``."""
    known = {"lambda": "λ", "noise_std": "σ"}
    return ", ".join(f"{known.get(key, readable(key))} {settings[key]}" for key in settings)


def sweep_points(runs: pd.DataFrame, attacks: pd.DataFrame, sweeps: Sweeps) -> pd.DataFrame:
    """Return one row per family, knowledge, defence and seed, a point of the plane.

    It has ``accuracy`` in %, the ``leakage_nats`` of the run, the other `SCORES_OF_POINTS` of the
    worst case, and the swept numbers by their keys; NaN where a result failed. ``unconverged`` (for
    ``recon_top1``: ``unconverged_recon``) is 1 where the attack quoted had not converged.
    """
    of_runs = runs[["defence", "seed", "top1", "leakage_nats"]].assign(
        at_chance=at_chance(runs).astype(float)
    )
    found = worst_case(attacks).merge(
        of_runs, on=["defence", "seed"], how="left", validate="many_to_one"
    )
    found["accuracy"] = 100 * found["top1"]
    for flag, score in _FLAGS.items():
        found[flag] = unconverged(found, score).astype(float)
    points = list(records(found))
    rows = [
        {"family": name, **point, **_numbers(family[point["defence"]])}
        for name, family in sweeps.families.items()
        for point in points
        if point["defence"] in family
    ]
    first = ["family", "accuracy", "leakage_nats"]
    return pd.DataFrame(rows, columns=[*first, *_OF_POINTS, *sweeps.strengths()])


def mean_curve(points: pd.DataFrame) -> pd.DataFrame:
    """Return the curve of one family and knowledge: the `front` of its means, by defence."""
    there = points.dropna(subset=["accuracy", "mse"])
    return front(there.groupby("defence", sort=False).mean(numeric_only=True))


def front(points: pd.DataFrame) -> pd.DataFrame:
    """Return the Pareto-efficient rows by ``accuracy`` and ``mse``, least accurate first.

    A row is efficient if no other one is at least as good in both and better in one. Of equal rows
    the first counts. Rows that are not finite (failed runs) are never efficient.

    Example:
        >>> accuracy, mse = [90.0, 95.0, 92.0, 90.0], [0.3, 0.1, 0.05, 0.2]
        >>> front(pd.DataFrame({"accuracy": accuracy, "mse": mse})).index.tolist()
        [0, 1]
    """
    finite = points[points[["accuracy", "mse"]].abs().lt(np.inf).all(axis=1)]
    ranked = finite.sort_values(["accuracy", "mse"], ascending=False)
    best = ranked["mse"].cummax().shift(fill_value=-np.inf)  # of all that are more accurate
    return ranked[ranked["mse"] > best][::-1]


def along(curve: pd.DataFrame, column: str, accuracy: float) -> float:
    """Return a column of a `mean_curve` at an accuracy in %, linear between rows; NaN beyond them.

    Example:
        >>> curve = pd.DataFrame({"accuracy": [90.0, 94.0], "mse": [0.3, 0.1]})
        >>> along(curve, "mse", 93.0), along(curve, "mse", 95.0)
        (0.15, nan)
    """
    if curve.empty:
        return np.nan
    return float(np.interp(accuracy, curve["accuracy"], curve[column], left=np.nan, right=np.nan))


def targets(points: pd.DataFrame, sweeps: Sweeps) -> list[float]:
    """Return the accuracies in % at which privacy is compared: the configured ones, if any.

    Otherwise it is the middle of the range that all curves of one knowledge cover, if there is one.
    """
    if sweeps.match_accuracy:
        return list(sweeps.match_accuracy)
    curves = [mean_curve(family)["accuracy"] for _, family in points.groupby("family")]
    ends = [(curve.iloc[0], curve.iloc[-1]) for curve in curves if len(curve)]
    low, high = max((a for a, _ in ends), default=1.0), min((b for _, b in ends), default=0.0)
    return [(low + high) / 2] if low <= high else []


def equally_accurate(names: Sequence[str], points: pd.DataFrame, sweeps: Sweeps) -> list[str]:
    """Return the names of defences, but of each sweep only one, at about the same accuracy.

    It is the efficient one whose mean accuracy is nearest to the last of the `targets`; if there
    are none, all names are returned. The points must have one knowledge.
    """
    if not (compared := targets(points, sweeps)):
        return [*names]
    curves = [mean_curve(points[points["family"] == name]) for name in sweeps.families]
    distances = [(curve["accuracy"] - compared[-1]).abs() for curve in curves if len(curve)]
    chosen, swept = {distance.idxmin() for distance in distances}, sweeps.titles()
    return [name for name in names if name in chosen or name not in swept]


def _numbers(settings: Settings) -> dict[str, float]:
    return {key: value for key, value in settings.items() if not isinstance(value, bool | str)}
