"""The sweeps of a study, and the points that their results give to curves of privacy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from cemlib.report.verdicts import unconverged
from cemlib.report.worst_case import worst_case

Settings = Mapping[str, bool | int | float | str]
_OF_POINTS = ("knowledge", "defence", "seed", "mse", "ssim", "unconverged")


@dataclass(frozen=True)
class Sweeps:
    """The sweeps of a study, and how they are to be compared (see the configuration's `report`)."""

    families: Mapping[str, Mapping[str, Settings]]
    match_accuracy: Sequence[float] = ()
    accuracy_floor: float | None = None

    def strengths(self) -> list[str]:
        """Keys of the settings that are numbers, in the order of the sweeps."""
        settings = [one for family in self.families.values() for one in family.values()]
        return list(dict.fromkeys(key for one in settings for key in one if _is_number(one[key])))


def sweep_points(runs: pd.DataFrame, attacks: pd.DataFrame, sweeps: Sweeps) -> pd.DataFrame:
    """One row per family, knowledge, member and seed: the point that it gives to the curve.

    Args:
        runs: as `collect` returns them.
        attacks: likewise.
        sweeps: of the study.

    Returns:
        ``accuracy`` in %, the ``mse`` and ``ssim`` of the worst case, the swept numbers by their
        keys; NaN where a result failed. ``unconverged`` is 1 where the attack had not converged.
    """
    accuracies = runs.set_index(["defence", "seed"])["top1"].mul(100).to_dict()
    strongest = worst_case(attacks)
    strongest["unconverged"] = unconverged(strongest, "mse").astype(float)
    rows = [
        {
            **{key: row[key] for key in _OF_POINTS},
            **{key: value for key, value in family[row["defence"]].items() if _is_number(value)},
            "family": name,
            "accuracy": accuracies[row["defence"], row["seed"]],
        }
        for name, family in sweeps.families.items()
        for row in strongest.to_dict("records")
        if row["defence"] in family
    ]
    return pd.DataFrame(rows, columns=["family", "accuracy", *_OF_POINTS, *sweeps.strengths()])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
