"""The subcommands that work on a study: each yields the files it wrote, or a line to print."""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from cemlib.cli.exits import failing_at_end
from cemlib.cli.options import plan_of


def run_prepare(options: argparse.Namespace) -> Iterator[Path]:
    """Prepare the study's data."""
    from cemlib.study.base import prepare

    yield from prepare(plan_of(options))


def run_train(options: argparse.Namespace) -> Iterator[Path | str]:
    """Train the runs and the judge, or those asked for."""
    from cemlib import jobs

    plan = plan_of(options)
    trainings = plan.trainings(options.defence, options.seed)
    yield from failing_at_end(
        written for training in trainings for written in jobs.train(plan, *training, options.device)
    )


def run_attack(options: argparse.Namespace) -> Iterator[Path | str]:
    """Carry out attacks on finished runs."""
    from cemlib import jobs

    plan = plan_of(options)
    attacks = [plan.known_attack(name) for name in options.attack or plan.study.attacks]
    runs = product(plan.defences(options.defence), plan.seeds(options.seed))
    yield from failing_at_end(
        written for run in runs for written in jobs.attack(plan, *run, attacks, options.device)
    )


def run_report(options: argparse.Namespace) -> Iterator[Path]:
    """Write tables, figures and the results page."""
    from cemlib import jobs

    yield from jobs.report(plan_of(options), options.only, options.defence)


def run_whole_study(options: argparse.Namespace) -> Iterator[Path | str]:
    """Carry out all jobs that are not finished, of a study of any system."""
    from cemlib.study.process import find_device
    from cemlib.study.schedule import run_study
    from cemlib.study.standing import failed_results
    from cemlib.systems import read_study

    if options.device == "cuda":
        find_device(options.device)  # refused before any job, and only then torch is needed here
    plan, jobs = read_study(options.config, options.device)
    yield from run_study(plan, jobs, options.slots)
    yield from failing_at_end(failed_results(plan.layout.root, jobs))


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
    from cemlib.cli.results import to_upload
    from cemlib.split import jobs

    plan = plan_of(options)
    plan.defences(options.defence)  # refused if there is no such one
    study = to_upload(plan, jobs(plan), options.defence)
    yield str(study.watch(options.uri) if options.watch else study.track(options.uri))
