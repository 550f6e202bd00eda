"""The commands that carry out a study: each yields the files it wrote, or a line to print."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.cli.exits import failing_at_end
from cemlib.cli.options import plan_of

if TYPE_CHECKING:
    from cemlib.study.job import Job
    from cemlib.systems import AnyPlan
    from cemlib.tracking import Study

ENDINGS = (".csv", ".md", ".png")  # of what is published of the further systems


def prepare(options: argparse.Namespace) -> Iterator[Path]:
    """Read, check, split and store the images."""
    from cemlib.study.base import prepare

    yield from prepare(plan_of(options))


def train(options: argparse.Namespace) -> Iterator[Path | str]:
    """Train defended classifiers, and the judge.

    Exit code 3 says that a training diverged.
    """
    from cemlib import jobs

    plan = plan_of(options)
    trainings = plan.trainings(options.defence, options.seed)
    yield from failing_at_end(
        written for training in trainings for written in jobs.train(plan, *training, options.device)
    )


def attack(options: argparse.Namespace) -> Iterator[Path | str]:
    """Reconstruct images from a run's released features.

    Exit code 3 says that an attack diverged.
    """
    from cemlib import jobs

    plan = plan_of(options)
    attacks = [plan.known_attack(name) for name in options.attack or plan.study.attacks]
    runs = product(plan.defences(options.defence), plan.seeds(options.seed))
    yield from failing_at_end(
        written for run in runs for written in jobs.attack(plan, *run, attacks, options.device)
    )


def report(options: argparse.Namespace) -> Iterator[Path]:
    """Write tables and figures of finished jobs, and the results page."""
    from cemlib import jobs

    yield from jobs.report(plan_of(options), options.only, options.defence)


def run(options: argparse.Namespace) -> Iterator[Path | str]:
    """Carry out all jobs of a study that are not finished, without Snakemake.

    The study may be of any system. Nothing is uploaded to MLflow. Exit code 3 says that a training
    or an attack diverged.
    """
    from cemlib.study.process import find_device
    from cemlib.study.schedule import run_study
    from cemlib.study.standing import failed_results
    from cemlib.systems import read_study

    if options.device == "cuda":
        find_device(options.device)  # refused before any job, and only then torch is needed here
    plan, jobs = read_study(options.config, options.device, options.set)
    yield from run_study(plan, jobs, options.slots)
    yield from failing_at_end(failed_results(plan.layout.root, jobs))


def track(options: argparse.Namespace) -> Iterator[str]:
    """Upload finished jobs to MLflow."""
    from cemlib.split import jobs

    plan = plan_of(options)
    plan.defences(options.defence)  # refused if there is no such one
    study = to_upload(plan, jobs(plan), options.defence)
    yield str(study.watch(options.uri) if options.watch else study.track(options.uri))


def publish(options: argparse.Namespace) -> Iterator[Path]:
    """Copy a finished study's tables and main figures under results/published."""
    from cemlib.report.figures import drawing

    plan = plan_of(options)
    drawn = [path for path in plan.all_figures() if path.suffix == ".png"]
    pictures = [path for path in drawn if drawing(path.stem).is_published]
    yield from published(plan, plan.metrics(), plan.tables() + pictures, options)


def to_upload(plan: "AnyPlan", jobs: Sequence["Job"], part: str | None = None) -> "Study":
    """Return what is uploaded: the results of runs, or of those of one defence, and the report."""
    from cemlib.study.job import records_below, report_files
    from cemlib.tracking import Study

    runs, attacks = list[Path](), list[Path]()
    of_part = [job for job in jobs if part is None or part in job.name.split("/")]
    for record in records_below(plan.layout.root / "runs", of_part):
        (attacks if record.parent.parent.name == "attacks" else runs).append(record)
    return Study(plan.layout.root, plan.study.experiment, runs, attacks, report_files(jobs))


def published(
    plan: "AnyPlan", metrics: Sequence[Path], files: Sequence[Path], options: argparse.Namespace
) -> list[Path]:
    """Copy files of a study under results/published, with where its results came from.

    Raises:
        FileError: if a result is missing, or came from uncommitted code.
    """
    from cemlib.report.publish import publish

    command = ["snakemake", "--cores", "2", "--configfile", str(options.config)]
    if options.set:
        changes = (word for change in options.set for word in ("--set", change))
        command = ["cemlib", "run", "--config", str(options.config), *changes]
    out = Path("results/published") / plan.study.experiment
    return publish(metrics, files, out, shlex.join(command))
