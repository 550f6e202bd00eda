"""Writing the tables and figures of a study."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from cemlib.files import write_text
from cemlib.report import (
    CLUSTER_COURSE,
    FIGURES,
    RELEASES,
    SWEEP_TABLES,
    TABLES,
    extremes_name,
    forest_name,
    frontier_name,
    reconstructions_name,
    surrogate_course_name,
)
from cemlib.report.bars import accuracy, identification, privacy, psnr
from cemlib.report.claims import claims
from cemlib.report.clusters import cluster_course
from cemlib.report.collect import collect, collect_runs
from cemlib.report.comparisons import comparisons_table, with_image_intervals
from cemlib.report.comparisons_text import comparisons_document
from cemlib.report.curves import attack_curves, recognition_course, training_curves
from cemlib.report.extremes import extremes
from cemlib.report.forest import forest
from cemlib.report.frontier_figure import frontier
from cemlib.report.frontier_tables import frontier_table, tradeoff_table
from cemlib.report.grid import reconstructions
from cemlib.report.per_image import per_image_mse
from cemlib.report.releases import releases
from cemlib.report.style import save
from cemlib.report.summary_text import summary_document
from cemlib.report.surrogates import surrogate_course
from cemlib.report.sweeps import Sweeps, sweep_points
from cemlib.report.tables import present, runs_table, summary_table
from cemlib.report.tradeoff import tradeoff
from cemlib.report.writer import csv, html, latex, markdown
from cemlib.seal import checked


def write_tables(
    root: Path,
    run_metrics: Sequence[Path],
    attack_metrics: Sequence[Path],
    out: Path,
    *,
    defences: Sequence[str],
    reference: str | None = None,
) -> list[Path]:
    """Write runs.csv, summary and comparisons as CSV and HTML, summary.md, summary.tex, claims.md.

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
    paths = [out / name for name in TABLES]
    for path, text in zip(paths, texts, strict=True):
        write_text(path, text)
    return paths


def write_figures(
    run_metrics: Sequence[Path],
    attack_metrics: Sequence[Path],
    out: Path,
    *,
    defences: Sequence[str],
    reference: str | None = None,
) -> list[Path]:
    """Write every figure of `figures` as PNG and SVG.

    Args and errors as for `write_tables`; the figures also read the histories, the scores of single
    images and the pictures that lie beside the metrics files.

    Returns:
        The files written.
    """
    drawings = figures(*collect(run_metrics, attack_metrics), defences, reference)
    return [path for name, draw in drawings.items() for path in save(draw(), out, name)]


def write_cluster_course(
    run_metrics: Sequence[Path], out: Path, *, defences: Sequence[str]
) -> list[Path]:
    """Write the figure of how clusters moved, from every finished run that left any.

    Args:
        run_metrics: ``metrics.json`` of the runs; ``clusters.safetensors`` lies beside it.
        out: folder to write to.
        defences: order of the rows.

    Returns:
        The files written.

    Raises:
        FileError: if a file is missing or wrong.
    """
    runs = collect_runs(run_metrics)
    finished = runs[runs["status"] == "ok"]
    clusters = {}
    for defence in present(runs, defences):
        folders = finished.loc[finished["defence"] == defence, "folder"]
        paths = [Path(folder) / "clusters.safetensors" for folder in folders]
        if found := [path for path in paths if path.is_file()]:
            clusters[defence] = [checked(path) for path in found]
    return save(cluster_course(clusters), out, CLUSTER_COURSE)


def write_sweep_tables(
    run_metrics: Sequence[Path], attack_metrics: Sequence[Path], out: Path, sweeps: Sweeps
) -> list[Path]:
    """Write tradeoff.csv and frontier.csv, which compare the curves of a study's sweeps.

    Args:
        run_metrics: ``metrics.json`` of every run.
        attack_metrics: ``metrics.json`` of every attack.
        out: folder to write to.
        sweeps: of the study.

    Returns:
        The files written.

    Raises:
        FileError: if a metrics file is missing or wrong (see `collect`).
    """
    points = sweep_points(*collect(run_metrics, attack_metrics), sweeps)
    texts = (csv(tradeoff_table(points, sweeps)), csv(frontier_table(points, sweeps)))
    paths = [out / name for name in SWEEP_TABLES]
    for path, text in zip(paths, texts, strict=True):
        write_text(path, text)
    return paths


def write_frontiers(
    run_metrics: Sequence[Path], attack_metrics: Sequence[Path], out: Path, sweeps: Sweeps
) -> list[Path]:
    """Write the figure of the sweeps' curves for each knowledge; arguments as for their tables.

    Returns:
        The files written.
    """
    points = sweep_points(*collect(run_metrics, attack_metrics), sweeps)
    return [
        path
        for knowledge in points["knowledge"].unique()
        for path in save(frontier(points, sweeps, knowledge), out, frontier_name(knowledge))
    ]


def write_surrogate_courses(
    run_metrics: Sequence[Path],
    out: Path,
    *,
    defences: Sequence[str],
    reference: str | None = None,
) -> list[Path]:
    """Write a figure of how its surrogate worked for each of some defences.

    Args:
        run_metrics: ``metrics.json`` of the runs; ``history.jsonl`` lies beside it.
        out: folder to write to.
        defences: those that have a surrogate.
        reference: the defence whose leakage bound is drawn beside theirs.

    Returns:
        The files written.

    Raises:
        FileError: if a file is missing or wrong.
    """
    runs = collect_runs(run_metrics)
    return [
        path
        for defence in defences
        for path in save(
            surrogate_course(runs, defence, reference), out, surrogate_course_name(defence)
        )
    ]


def figures(
    runs: pd.DataFrame,
    attacks: pd.DataFrame,
    defences: Sequence[str],
    reference: str | None = None,
) -> dict[str, Callable[[], Figure]]:
    """The figures by name; each is drawn when it is called.

    Args:
        runs: as `collect` returns them.
        attacks: likewise.
        defences: order of the study.
        reference: the defence that others are compared with (see `comparisons_table`).
    """
    fixed: tuple[Callable[[], Figure], ...] = (
        partial(accuracy, runs, defences),
        partial(privacy, attacks, defences),
        partial(psnr, attacks, defences),
        partial(per_image_mse, attacks, defences),
        partial(identification, attacks, defences),
        partial(tradeoff, runs, attacks, defences, "mse"),
        partial(tradeoff, runs, attacks, defences, "ssim"),
        partial(attack_curves, attacks, defences),
        partial(recognition_course, attacks, defences),
        partial(training_curves, runs, defences),
    )
    drawings = dict(zip(FIGURES, fixed, strict=True))
    if attacks["queries"].nunique() > 1:
        drawings[RELEASES] = partial(releases, attacks, defences)
    for knowledge in attacks["knowledge"].unique():
        name = forest_name(knowledge)
        drawings[name] = partial(forest, runs, attacks, defences, reference, knowledge)
    return drawings | _pictures(attacks, defences)


def _pictures(attacks: pd.DataFrame, defences: Sequence[str]) -> dict[str, Callable[[], Figure]]:
    """Grids of each attack's reconstructions, and the extremes of the strongest."""
    kinds = dict.fromkeys(zip(attacks["attack"], attacks["knowledge"], strict=True))
    pictures: dict[str, Callable[[], Figure]] = {
        reconstructions_name(*kind): partial(reconstructions, attacks, defences, *kind)
        for kind in kinds
    }
    for knowledge in attacks["knowledge"].unique():
        pictures[extremes_name(knowledge)] = partial(extremes, attacks, defences, knowledge)
    return pictures
