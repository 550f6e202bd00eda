"""Writing the tables and figures of a study."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path

from matplotlib.figure import Figure

from cemlib.files import write_text
from cemlib.report import SWEEP_TABLES, TABLES, WHOLE
from cemlib.report.claims import claims
from cemlib.report.collect import collect
from cemlib.report.comparisons import comparisons_table, with_image_intervals
from cemlib.report.comparisons_text import comparisons_document
from cemlib.report.figures import Drawing, drawings
from cemlib.report.frontier_tables import frontier_table, tradeoff_table
from cemlib.report.results import Results, read
from cemlib.report.style import save
from cemlib.report.summary_text import summary_document
from cemlib.report.sweeps import Sweeps, sweep_points
from cemlib.report.tables import runs_table, summary_table
from cemlib.report.writer import csv, html, latex, markdown


def write_tables(
    root: Path,
    run_metrics: Sequence[Path],
    attack_metrics: Sequence[Path],
    out: Path,
    *,
    defences: Sequence[str],
    reference: str | None = None,
) -> list[Path]:
    """Write `TABLES`.

    Args:
        root: folder of the experiment; runs.csv names folders relative to it.
        run_metrics: ``metrics.json`` of every run.
        attack_metrics: ``metrics.json`` of every attack.
        out: folder to write to.
        defences: order of the rows; names without results are left out.
        reference: the defence that comparisons.csv compares with (see `comparisons_table`).

    Returns:
        The files written.

    Raises:
        FileError: if a metrics file is missing or wrong (see `collect`), or the scores of single
            images are.
        ValueError: if a result's defence is not in ``defences``, or the reference has no result.
    """
    runs, attacks = collect(run_metrics, attack_metrics)
    summary = summary_table(runs, attacks, defences)
    compared = comparisons_table(runs, attacks, defences, reference)
    comparisons = with_image_intervals(compared, attacks)
    document = summary_document(summary)
    texts = (
        csv(runs_table(runs, attacks, defences, root)),
        csv(summary),
        csv(comparisons),
        markdown(document),
        latex(document),
        html(document),
        html(comparisons_document(comparisons)),
        claims(comparisons),
    )
    return _write(out, TABLES, texts)


def write_sweep_tables(
    run_metrics: Sequence[Path], attack_metrics: Sequence[Path], out: Path, sweeps: Sweeps
) -> list[Path]:
    """Write `SWEEP_TABLES`, which compare the curves of a study's sweeps.

    Args and errors as for `write_tables`.

    Returns:
        The files written.
    """
    points = sweep_points(*collect(run_metrics, attack_metrics), sweeps)
    texts = (csv(tradeoff_table(points, sweeps)), csv(frontier_table(points, sweeps)))
    return _write(out, SWEEP_TABLES, texts)


def write_figures(
    run_metrics: Sequence[Path],
    attack_metrics: Sequence[Path],
    out: Path,
    *,
    defences: Sequence[str],
    reference: str | None = None,
    sweeps: Sweeps | None = None,
    part: str = WHOLE,
) -> list[Path]:
    """Write the figures of one part of the report as PNG and SVG.

    Args and errors as for `write_tables`; the figures also read the histories, clusters, scores of
    single images and pictures that lie beside the metrics files. The parts about trainings need no
    metrics of attacks.

    Returns:
        The files written.
    """
    results = read(run_metrics, attack_metrics, defences, reference, sweeps)
    drawn = figures(results, part)
    return [path for name, draw in drawn.items() for path in save(draw(), out, name)]


def figures(results: Results, part: str = WHOLE) -> dict[str, Callable[[], Figure]]:
    """Return the figures of a part by name; each is drawn when it is called."""
    found = drawings(part, results.choices(), results.features())
    return {drawing.name: partial(_draw, drawing, results) for drawing in found}


def _draw(drawing: Drawing, results: Results) -> Figure:
    """Call the function that draws a figure with what its parameters name."""
    module, _, name = drawing.figure.function.rpartition(".")
    function = getattr(import_module(f"cemlib.report.{module}"), name)
    wanted, chosen = signature(function).parameters, drawing.chosen
    given = {key: chosen[key] if key in chosen else getattr(results, key) for key in wanted}
    figure: Figure = function(**given)
    return figure


def _write(out: Path, names: Sequence[str], texts: Sequence[str]) -> list[Path]:
    paths = [out / name for name in names]
    for path, text in zip(paths, texts, strict=True):
        write_text(path, text)
    return paths
