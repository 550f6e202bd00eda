"""The results of a study, and the tables and figures that are written of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from cemlib.records.files import write_text
from cemlib.records.seal import checked
from cemlib.report import SWEEP_TABLES, TABLES, WHOLE
from cemlib.report.at_accuracy import tradeoff_table
from cemlib.report.claims import claims, warnings
from cemlib.report.collect import collect, collect_runs
from cemlib.report.comparisons import comparisons_table, with_image_intervals
from cemlib.report.figures import Drawing, drawings
from cemlib.report.frontier import Sweeps, sweep_points
from cemlib.report.style import save, settings
from cemlib.report.tables import present, runs_table, summary_table
from cemlib.report.texts import comparisons_document, paper_document, summary_document
from cemlib.report.writer import csv, html, latex, markdown


@dataclass(frozen=True)
class Results:
    """Hold the results of a study, which its figures are drawn from.

    Attributes:
        runs: As `collect` returns them.
        attacks: Likewise; None where only the runs were read.
        defences: Order of the study.
        reference: The defence that others are compared with (see `comparisons_table`).
        sweeps: Of the study; None where it has none.
        surrogates: The defences whose training has a surrogate.
    """

    runs: pd.DataFrame
    attacks: pd.DataFrame | None
    defences: Sequence[str]
    reference: str | None = None
    sweeps: Sweeps | None = None
    surrogates: Sequence[str] = ()

    @cached_property
    def points(self) -> pd.DataFrame:
        """Return the points of the sweeps' curves."""
        assert self.attacks is not None
        assert self.sweeps is not None
        return sweep_points(self.runs, self.attacks, self.sweeps)

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Return the differences to the reference (see `comparisons_table`)."""
        assert self.attacks is not None
        return comparisons_table(self.runs, self.attacks, self.defences, self.reference)

    @cached_property
    def clusters(self) -> Mapping[str, Sequence[Path]]:
        """Return the fitted clusters of every finished run that left any, by defence."""
        finished = self.runs[self.runs["status"] == "ok"]
        found = {}
        for defence in present(self.runs, self.defences):
            folders = finished.loc[finished["defence"] == defence, "folder"]
            paths = [Path(folder) / "clusters.safetensors" for folder in folders]
            found[defence] = [checked(path) for path in paths if path.is_file()]
        return {defence: paths for defence, paths in found.items() if paths}

    @property
    def knowledges(self) -> list[str]:
        """Return what the attackers have."""
        return [] if self.attacks is None else [*self.attacks["knowledge"].unique()]

    def features(self) -> list[str]:
        """Return what only some studies have."""
        several = self.attacks is not None and self.attacks["queries"].nunique() > 1
        return ["releases"] * several + ["sweeps"] * (self.sweeps is not None)


def read(
    run_metrics: Sequence[Path],
    attack_metrics: Sequence[Path],
    defences: Sequence[str],
    **rest: Any,
) -> Results:
    """Read the metrics files of a study, or those of its runs alone.

    Args:
        run_metrics: of its runs.
        attack_metrics: of the attacks on them; may be empty.
        defences: order of the study.
        rest: the other attributes of `Results`.

    Raises:
        FileError: if a metrics file is missing or wrong (see `collect`).
    """
    if not attack_metrics:
        return Results(collect_runs(run_metrics), None, defences, **rest)
    return Results(*collect(run_metrics, attack_metrics), defences, **rest)


def write_tables(
    results: Results, root: Path, out: Path, *, stale: Sequence[str] = ()
) -> list[Path]:
    """Write `TABLES`, and of a study with sweeps `SWEEP_TABLES`.

    Args:
        results: of runs and attacks.
        root: folder of the experiment; runs.csv names folders relative to it.
        out: folder to write to.
        stale: lines that go before all others: which results are of other settings.

    Returns:
        The files written.

    Raises:
        FileError: if the scores of single images are missing or damaged.
        ValueError: if a result's defence is not among those of the results, or the reference has
            no result.
    """
    assert results.attacks is not None
    runs, attacks, defences = results.runs, results.attacks, results.defences
    summary = summary_table(runs, attacks, defences)
    comparisons = with_image_intervals(results.compared, attacks)
    found = (summary_document(summary), paper_document(summary), comparisons_document(comparisons))
    document, paper, differences = (replace(each, notes=[*stale, *each.notes]) for each in found)
    texts = [
        csv(runs_table(runs, attacks, defences, root)),
        csv(summary),
        csv(comparisons),
        markdown(document),
        latex(paper),
        html(document),
        html(differences),
        "".join([*(f"{line}\n\n" for line in stale), claims(comparisons, warnings(summary))]),
    ]
    names = [*TABLES]
    if results.sweeps is not None:
        names += SWEEP_TABLES
        texts.append(csv(tradeoff_table(results.points, results.sweeps)))
    written = [out / name for name in names]
    for path, text in zip(written, texts, strict=True):
        write_text(path, text)
    return written


def write_figures(results: Results, out: Path, part: str = WHOLE) -> list[Path]:
    """Write the figures of one part of the report as PNG and PDF; return the files.

    They also read the histories, clusters and pictures that lie beside the metrics files. The part
    about trainings needs no results of attacks.

    Raises:
        FileError: if one of these files is missing or damaged.
    """
    drawn = figures(results, part)
    return [path for name, draw in drawn.items() for path in save(draw(), out, name)]


def figures(results: Results, part: str = WHOLE) -> dict[str, Callable[[], Figure]]:
    """Return the figures of a part by name; each is drawn when it is called."""
    found = drawings(part, results.knowledges, results.features())
    return {drawing.name: partial(_draw, drawing, results) for drawing in found}


def _draw(drawing: Drawing, results: Results) -> Figure:
    """Call the function that draws a figure with what its parameters name."""
    module, _, name = drawing.figure.function.rpartition(".")
    function = getattr(import_module(f"cemlib.report.{module}"), name)
    wanted, chosen = signature(function).parameters, drawing.chosen
    given = {key: chosen[key] if key in chosen else getattr(results, key) for key in wanted}
    with settings():
        figure: Figure = function(**given)
    return figure
