"""The commands `pctc` and `federated`: jobs of the two further systems, in this process."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cemlib.cli.exits import failing_at_end
from cemlib.cli.study import ENDINGS, published, to_upload

if TYPE_CHECKING:
    from cemlib.study.job import Job
    from cemlib.systems import AnyPlan

PCTC_JOBS = ("prepare", "repeat", "cost", "tables", "figures", "track", "publish")
FEDERATED_JOBS = ("prepare", "pseudo", "train", "attack", "report", "track", "publish")


def pctc(options: argparse.Namespace) -> Iterator[Path | str]:
    """Run collaborative labelling: encrypted votes, private counts, training on the answers.

    Without --only, whatever is missing is carried out in order, but for track and publish. Exit
    code 3 says that a training diverged.

    Raises:
        ConfigError: if the study is faulty, or a repeat is named for all jobs or another one.
        FailedResultsError: after all of them, if a training diverged.
    """
    from cemlib.config import ConfigError
    from cemlib.config.load import load_as
    from cemlib.systems import SYSTEMS

    if options.repeat is not None and options.only != "repeat":
        raise ConfigError(f"--repeat {options.repeat}: add --only repeat, or leave it out")
    plan: Any = load_as(options.config, SYSTEMS["pctc"].plan, options.set)
    plan.repeats(options.repeat)  # refused if there is no such one
    asked = set() if options.repeat is None else {str(options.repeat)}
    yield from failing_at_end(_run(plan, SYSTEMS["pctc"].jobs(plan, "cpu"), asked, options))


def federated(options: argparse.Namespace) -> Iterator[Path | str]:
    """Run federated learning with pseudo images and masked gradients, and attacks on it.

    Without --only, whatever is missing is carried out in order, but for track and publish. Exit
    code 3 says that a training or an attack diverged.

    Raises:
        ConfigError: if the study is faulty, or has no such variant or seed.
        FailedResultsError: after all of them, if a training or an attack diverged.
    """
    from cemlib.config.load import load_as
    from cemlib.systems import SYSTEMS

    plan: Any = load_as(options.config, SYSTEMS["federated"].plan, options.set)
    variants, seeds = plan.variants(options.variant), plan.seeds(options.seed)
    asked = set(variants) if options.variant is not None else set()
    asked |= {f"seed{seed}" for seed in seeds} if options.seed is not None else set()
    jobs = SYSTEMS["federated"].jobs(plan, options.device)
    yield from failing_at_end(_run(plan, jobs, asked, options))


def _run(
    plan: "AnyPlan", jobs: Sequence["Job"], asked: set[str], options: argparse.Namespace
) -> Iterator[Path | str]:
    """Carry out one kind of job, or whatever is missing of those asked for and what they need."""
    from cemlib.study.finished import finished, run_job
    from cemlib.study.job import records_below, report_files, with_needs

    named = [job for job in jobs if asked <= set(job.name.split("/"))]
    root = plan.layout.root
    if options.only == "track":
        yield str(to_upload(plan, jobs).track(options.uri))
    elif options.only == "publish":
        results = [*records_below(root / "pseudo", jobs), *records_below(root / "runs", jobs)]
        files = [file for file in report_files(jobs) if file.suffix in ENDINGS]
        yield from published(plan, results, files, options)
    elif options.only is not None:
        for job in named:
            if job.name.partition("/")[0] == options.only:
                yield from job.call()
    else:
        plan.write_config()
        for job in with_needs(jobs, named):
            if not finished(job):
                yield from run_job(job)
