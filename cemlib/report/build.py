"""Write the tables and figures of a study's results, or of these and published ones together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from inspect import signature
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from cemlib.records.files import FileError, write_text
from cemlib.report import SWEEP_TABLES, TABLES, WHOLE
from cemlib.report.at_accuracy import tradeoff_table
from cemlib.report.claims import claims, warnings
from cemlib.report.comparisons import comparisons_table, with_image_intervals
from cemlib.report.figures import UTILITY, Drawing, drawings
from cemlib.report.frontier import Sweeps, sweep_points
from cemlib.report.style import save, settings
from cemlib.report.tables import read_runs, runs_table, summary_table
from cemlib.report.texts import (
    TOO_WIDE,
    comparisons_document,
    paper_document,
    summary_document,
    tradeoff_document,
)
from cemlib.report.writer import Document, csv, html, latex, markdown


@dataclass(frozen=True)
class Results:
    """The results of a study, from which its tables and figures are made.

    Attributes:
        runs: as `cemlib.report.tables.collect` returns them.
        attacks: from the same call; may be empty.
        defences: all defences, in the order of the study.
        reference: the defence that others are compared with (see `comparisons_table`).
        surrogates: the defences whose training has a surrogate.
        has_images: whether the folders of runs and attacks are present; without them, intervals
            over images and figures that need more than the tables are left out.
    """

    runs: pd.DataFrame
    attacks: pd.DataFrame
    defences: Sequence[str]
    reference: str | None = None
    sweeps: Sweeps = field(default_factory=Sweeps)
    surrogates: Sequence[str] = ()
    has_images: bool = True

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Return the means over the seeds (see `summary_table`)."""
        return summary_table(self.runs, self.attacks, self.defences)

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Return the differences from the reference (see `comparisons_table`)."""
        table = comparisons_table(self.runs, self.attacks, self.defences, self.reference)
        return with_image_intervals(table, self.attacks) if self.has_images else table

    @cached_property
    def tradeoff(self) -> pd.DataFrame:
        """Return the privacy of the sweeps at equal accuracy (see `tradeoff_table`)."""
        return tradeoff_table(self.points, self.sweeps)

    @property
    def decisive(self) -> pd.DataFrame:
        """Return the table that claims rest on, that of the sweeps if there are several."""
        return self.tradeoff if len(self.sweeps.families) > 1 else self.compared

    @cached_property
    def points(self) -> pd.DataFrame:
        """Return the points of the sweeps' curves (see `sweep_points`)."""
        return sweep_points(self.runs, self.attacks, self.sweeps)


def write_tables(
    results: Results, root: Path, out: Path, *, stale: Sequence[str] = ()
) -> list[Path]:
    """Write `TABLES`, and for a study with sweeps `SWEEP_TABLES`; return the files.

    runs.csv names folders relative to `root`, the folder of the experiment. The notes in `stale`,
    which name the results that were made with other settings, are put first.

    Raises:
        FileError: if the scores of single images are missing.
        ValueError: if a result's defence is not listed, or the reference has no result.
    """
    runs = runs_table(results.runs, results.attacks, results.defences, root)
    summary, compared = results.summary, results.compared

    def noted(document: Document) -> Document:
        return replace(document, notes=[*stale, *document.notes])

    found = (summary_document(summary), paper_document(summary), comparisons_document(compared))
    document, paper, differences = map(noted, found)
    texts = [
        csv(runs),
        csv(summary),
        csv(compared),
        markdown(document),
        latex(paper),
        html(document),
        html(differences),
        "".join([*(f"{line}\n\n" for line in stale), claims(results.decisive, warnings(summary))]),
    ]
    names = [*TABLES]
    if results.sweeps.families:
        names += SWEEP_TABLES
        equal = noted(tradeoff_document(results.tradeoff))
        narrow = noted(tradeoff_document(results.tradeoff, TOO_WIDE))
        texts += [csv(results.tradeoff), markdown(equal), latex(narrow), html(equal)]
    written = [out / name for name in names]
    for path, text in zip(written, texts, strict=True):
        write_text(path, text)
    return written


def write_figures(results: Results, out: Path, part: str = WHOLE, note: str = "") -> list[Path]:
    """Write the figures of one part as PNG and PDF, with `note` above each; return the files.

    The part about trainings needs no results of attacks.

    Raises:
        FileError: if a history or a picture beside the metrics files is missing or damaged.
    """
    drawn = figures(results, part)
    return [path for name, draw in drawn.items() for path in save(draw(), out, name, note)]


def figures(results: Results, part: str = WHOLE) -> dict[str, Callable[[], Figure]]:
    """Return the figures of a part that the results allow, by name; each is drawn when called."""
    attacks, swept = results.attacks, bool(results.sweeps.families)
    knowledges = list(attacks["knowledge"].unique())
    return {
        drawing.name: partial(_draw, drawing, results)
        for drawing in drawings(part, knowledges, attacks["queries"], swept)
        # Only figures of this category are drawn from the tables alone.
        if results.has_images or drawing.category == UTILITY
    }


def pooled(results: Results, root: Path, table: Path) -> Results:
    """Return results together with those of other seeds in a published ``runs.csv``.

    Intervals over single images are left out, since the published results have no images. `root` is
    the folder of the experiment.

    Raises:
        FileError: if there is no such table, a run is in both, or the table is of another
            experiment, has a defence that is not in the study, or has other attacks.
    """
    if not table.is_file():
        raise FileError(f"{table}: no such file; publish the first seeds without --add")
    runs, attacks = read_runs(table)
    if unknown := set(runs["defence"]) - set(results.defences):
        raise FileError(f"{table}: has {', '.join(sorted(unknown))}, which is not in the study")
    if other := set(runs["experiment"]) - set(results.runs["experiment"]):
        raise FileError(f"{table}: belongs to another experiment, {', '.join(sorted(other))}")
    if other := set(attacks["attack"]) ^ set(results.attacks["attack"]):
        names = ", ".join(sorted(other))
        raise FileError(f"{table}: has other attacks ({names}); publish all seeds again")
    if both := runs.merge(results.runs[["experiment", "defence", "seed"]]).to_dict("records"):
        raise FileError(
            f"{table}: has {both[0]['defence']}, seed {both[0]['seed']} already; choose the seeds"
            " that it lacks, as in --set 'seeds=[3, 4]'"
        )
    for frame in (runs, attacks):
        frame["folder"] = [str(root / folder) for folder in frame["folder"]]
    parts = ([runs, results.runs], [attacks, results.attacks])
    every, attacked = (pd.concat(pair).sort_values("seed", kind="stable") for pair in parts)
    return replace(results, runs=every, attacks=attacked, has_images=False)


def _draw(drawing: Drawing, results: Results) -> Figure:
    """Call the function that draws a figure, with the arguments that its parameters ask for."""
    module, _, name = drawing.function.rpartition(".")
    function = getattr(import_module(f"cemlib.report.{module}"), name)
    wanted, chosen = signature(function).parameters, drawing.chosen
    given = {key: chosen[key] if key in chosen else getattr(results, key) for key in wanted}
    with settings():
        figure: Figure = function(**given)
    return figure
