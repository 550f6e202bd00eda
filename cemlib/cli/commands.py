"""The subcommands that work on a study: each yields the files it wrote, or a line to print."""

import argparse
from collections.abc import Iterable, Iterator
from itertools import chain, product
from pathlib import Path

from cemlib.cli.options import plan_of
from cemlib.errors import FailedResultsError


def run_prepare(options: argparse.Namespace) -> Iterator[Path]:
    """Prepare the study's data."""
    from cemlib import jobs

    yield from jobs.prepare(plan_of(options))


def run_train(options: argparse.Namespace) -> Iterator[Path | str]:
    """Train the runs and the judge, or those asked for."""
    from cemlib import jobs

    plan = plan_of(options)
    trainings = plan.trainings(options.defence, options.seed)
    yield from _all_of(jobs.train(plan, *training, options.device) for training in trainings)


def run_attack(options: argparse.Namespace) -> Iterator[Path | str]:
    """Carry out attacks on finished runs."""
    from cemlib import jobs

    plan = plan_of(options)
    attacks = [plan.known_attack(name) for name in options.attack or plan.study.attacks]
    runs = product(plan.defences(options.defence), plan.seeds(options.seed))
    yield from _all_of(jobs.attack(plan, *run, attacks, options.device) for run in runs)


def run_report(options: argparse.Namespace) -> Iterator[Path]:
    """Write tables, figures and the results page."""
    from cemlib import jobs

    yield from jobs.report(plan_of(options), options.only, options.defence)


def run_whole_study(options: argparse.Namespace) -> Iterator[Path | str]:
    """Carry out all jobs that are not finished."""
    from cemlib.failed import failed_results
    from cemlib.jobs import find_device
    from cemlib.runner import run_study

    if options.device == "cuda":
        find_device(options.device)  # refused before any job, and only then torch is needed here
    plan = plan_of(options)
    yield from run_study(plan, options.device, options.slots)
    yield from _all_of([failed_results(plan)])


def run_publish(options: argparse.Namespace) -> Iterator[Path]:
    """Copy what others may read under results/published."""
    from cemlib.report.figures import drawing
    from cemlib.report.publish import publish

    plan = plan_of(options)
    out = Path("results/published") / plan.study.experiment
    command = f"snakemake --cores 2 --configfile {options.config}"
    drawn = [path for path in plan.all_figures() if path.suffix == ".png"]
    pictures = [path for path in drawn if drawing(path.stem).is_published]
    yield from publish(plan.metrics(), plan.tables() + pictures, out, command)


def run_track(options: argparse.Namespace) -> Iterator[str]:
    """Upload to MLflow, once or until every job has finished."""
    from cemlib.tracking import Study

    plan = plan_of(options)
    study = Study(
        plan.layout.root,
        plan.study.experiment,
        run_metrics=[run.metrics for run in plan.runs(options.defence)],
        attack_metrics=[attack.metrics for attack in plan.attacks(options.defence)],
        report_files=[*plan.tables(), *plan.all_figures(), *plan.page()],
    )
    yield str(study.watch(options.uri) if options.watch else study.track(options.uri))


def _all_of(jobs: Iterable[Iterator[Path | str]]) -> Iterator[Path | str]:
    """What some jobs yield: the files they wrote, and a line for each failed result.

    Raises:
        FailedResultsError: after all of them, if there was such a line.
    """
    failed = False
    for written in chain.from_iterable(jobs):
        failed = failed or isinstance(written, str)
        yield written
    if failed:
        raise FailedResultsError
