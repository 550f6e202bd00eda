"""The subcommands that work on a study: each yields the files it wrote, or a line to print."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from cemlib.cli.options import plan_of


def run_prepare(options: argparse.Namespace) -> Iterator[Path]:
    """Prepare the study's data."""
    from cemlib import jobs

    yield from jobs.prepare(plan_of(options))


def run_train(options: argparse.Namespace) -> Iterator[Path | str]:
    """Train the runs and the judge, or those asked for."""
    from cemlib import jobs

    plan = plan_of(options)
    for defence, seed in plan.trainings(options.defence, options.seed):
        yield from jobs.train(plan, defence, seed, options.device)


def run_attack(options: argparse.Namespace) -> Iterator[Path]:
    """Carry out attacks on finished runs."""
    from cemlib import jobs

    plan = plan_of(options)
    attacks = [plan.known_attack(name) for name in options.attack or plan.study.attacks]
    for defence in plan.defences(options.defence):
        for seed in plan.seeds(options.seed):
            yield from jobs.attack(plan, defence, seed, attacks, options.device)


def run_report(options: argparse.Namespace) -> Iterator[Path]:
    """Write tables and figures."""
    from cemlib import jobs

    yield from jobs.report(plan_of(options), options.only, options.defence)


def run_whole_study(options: argparse.Namespace) -> Iterator[str]:
    """Carry out all jobs that are not finished."""
    from cemlib.jobs import find_device
    from cemlib.runner import run_study

    if options.device == "cuda":
        find_device(options.device)  # refused before any job, and only then torch is needed here
    yield from run_study(plan_of(options), options.device, options.slots)


def run_publish(options: argparse.Namespace) -> Iterator[Path]:
    """Copy what others may read under results/published."""
    from cemlib.report.publish import PICTURES, publish

    plan = plan_of(options)
    out = Path("results/published") / plan.study.experiment
    command = f"snakemake --cores 2 --configfile {options.config}"
    drawn = [path for path in plan.figures() if path.stem in PICTURES] + plan.surrogate_courses()
    pictures = [path for path in drawn if path.suffix == ".png"]
    yield from publish(plan.metrics(), plan.tables() + pictures, out, command)


def run_track(options: argparse.Namespace) -> Iterator[str]:
    """Upload to MLflow, once or until every job has finished."""
    from cemlib.tracking import Study

    plan = plan_of(options)
    figures = [*plan.figures(), *plan.cluster_course(), *plan.surrogate_courses()]
    study = Study(
        plan.layout.root,
        plan.study.experiment,
        run_metrics=[run.metrics for run in plan.runs(options.defence)],
        attack_metrics=[attack.metrics for attack in plan.attacks(options.defence)],
        report_files=[*plan.tables(), *figures],
    )
    yield str(study.watch(options.uri) if options.watch else study.track(options.uri))
