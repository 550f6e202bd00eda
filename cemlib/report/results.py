"""The results of a study, as its tables and figures take them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from cemlib.report.collect import collect, collect_runs
from cemlib.report.sweeps import Sweeps, sweep_points
from cemlib.report.tables import present
from cemlib.seal import checked


@dataclass(frozen=True)
class Results:
    """What figures are drawn from.

    Attributes:
        runs: As `collect` returns them.
        attacks: Likewise; None where only the runs were read.
        defences: Order of the study.
        reference: The defence that others are compared with (see `comparisons_table`).
        sweeps: Of the study; None where it has none.
    """

    runs: pd.DataFrame
    attacks: pd.DataFrame | None
    defences: Sequence[str]
    reference: str | None = None
    sweeps: Sweeps | None = None

    @cached_property
    def points(self) -> pd.DataFrame:
        """The points of the sweeps' curves."""
        assert self.attacks is not None
        assert self.sweeps is not None
        return sweep_points(self.runs, self.attacks, self.sweeps)

    @cached_property
    def clusters(self) -> Mapping[str, Sequence[Path]]:
        """Fitted clusters of every finished run that left any, by defence."""
        finished = self.runs[self.runs["status"] == "ok"]
        found = {}
        for defence in present(self.runs, self.defences):
            folders = finished.loc[finished["defence"] == defence, "folder"]
            paths = [Path(folder) / "clusters.safetensors" for folder in folders]
            found[defence] = [checked(path) for path in paths if path.is_file()]
        return {defence: paths for defence, paths in found.items() if paths}

    def choices(self) -> dict[str, list[str]]:
        """What there is one figure for each of, as `cemlib.report.figures.drawings` takes it."""
        defences = {"defence": list(self.defences)}
        if self.attacks is None:
            return defences
        keys = ("attack", "knowledge")
        return defences | {k: [str(name) for name in self.attacks[k].unique()] for k in keys}

    def features(self) -> list[str]:
        """What only some studies have."""
        several = self.attacks is not None and self.attacks["queries"].nunique() > 1
        return ["releases"] * several + ["sweeps"] * (self.sweeps is not None)


def read(
    run_metrics: Sequence[Path],
    attack_metrics: Sequence[Path],
    defences: Sequence[str],
    reference: str | None = None,
    sweeps: Sweeps | None = None,
) -> Results:
    """Read the metrics files of a study, or those of its runs alone.

    Raises:
        FileError: if a metrics file is missing or wrong (see `collect`).
    """
    if not attack_metrics:
        return Results(collect_runs(run_metrics), None, defences, reference, sweeps)
    return Results(*collect(run_metrics, attack_metrics), defences, reference, sweeps)
