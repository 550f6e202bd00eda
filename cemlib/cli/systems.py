"""`cemlib pctc` and `cemlib federated`: jobs of the two further systems, in this process."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.cli.exits import failing_at_end
from cemlib.cli.options import Commands, add_device, add_uri

if TYPE_CHECKING:
    from cemlib.study.job import Job
    from cemlib.systems import AnyPlan

PCTC = "collaborative labelling: encrypted votes, private counts, training on the answers"
FEDERATED = "federated learning with pseudo images and masked gradients, and attacks on it"
PCTC_JOBS = ("prepare", "repeat", "cost", "tables", "figures", "track", "publish")
FEDERATED_JOBS = ("prepare", "pseudo", "train", "attack", "report", "track", "publish")


def add_pctc(commands: Commands) -> None:
    """Add the subcommand to the command line."""
    parser = _add(commands, "pctc", PCTC, PCTC_JOBS, run_pctc)
    parser.add_argument(
        "--repeat", type=int, metavar="N", help="with --only repeat: only this one, from 0"
    )


def add_federated(commands: Commands) -> None:
    """Add the subcommand to the command line."""
    parser = _add(commands, "federated", FEDERATED, FEDERATED_JOBS, run_federated)
    parser.add_argument("--variant", metavar="NAME", help="only this variant (train, attack)")
    parser.add_argument("--seed", type=int, metavar="N", help="only this seed")
    add_device(parser)


def _add(
    commands: Commands,
    system: str,
    text: str,
    jobs: Sequence[str],
    run: Callable[[argparse.Namespace], Iterator[Path | str]],
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        system,
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Without --only, whatever is missing, in order,"
        " but for track and publish.",
    )
    parser.add_argument(
        "--config",
        type=Path,
        default=Path(f"config/{system}.yaml"),
        metavar="FILE",
        help=f"the study's configuration, with `system: {system}` (default: %(default)s)",
    )
    parser.add_argument(
        "--only", choices=jobs, help="only this job, whether its files are there or not"
    )
    add_uri(parser)
    parser.set_defaults(command=run)
    return parser


def run_pctc(options: argparse.Namespace) -> Iterator[Path | str]:
    """Carry out jobs; yield the files they wrote, and a line for each failed result.

    Raises:
        ConfigError: if the study is faulty, or a repeat is named for all jobs or another one.
        FailedResultsError: after all of them, if a training diverged.
    """
    from cemlib.config.errors import ConfigError
    from cemlib.config.labelling import load
    from cemlib.labelling.jobs import jobs
    from cemlib.labelling.plan import LabellingPlan

    if options.repeat is not None and options.only != "repeat":
        raise ConfigError(f"--repeat {options.repeat}: add --only repeat, or leave it out")
    plan = LabellingPlan(load(options.config))
    plan.repeats(options.repeat)  # refused if there is no such one
    asked = set() if options.repeat is None else {str(options.repeat)}
    yield from failing_at_end(_run(plan, jobs(plan), asked, options))


def run_federated(options: argparse.Namespace) -> Iterator[Path | str]:
    """Carry out jobs; yield the files they wrote, and a line for each failed result.

    Raises:
        ConfigError: if the study is faulty, or has no such variant or seed.
        FailedResultsError: after all of them, if a training or an attack diverged.
    """
    from cemlib.config.federated import load
    from cemlib.federated.jobs import jobs
    from cemlib.federated.plan import FederatedPlan

    plan = FederatedPlan(load(options.config))
    variants, seeds = plan.variants(options.variant), plan.seeds(options.seed)
    asked = set(variants) if options.variant is not None else set()
    asked |= {f"seed{seed}" for seed in seeds} if options.seed is not None else set()
    yield from failing_at_end(_run(plan, jobs(plan, options.device), asked, options))


def _run(
    plan: "AnyPlan", jobs: Sequence["Job"], asked: set[str], options: argparse.Namespace
) -> Iterator[Path | str]:
    """Carry out one kind of job, or whatever is missing of those asked for and what they need."""
    from cemlib.cli.results import publish_report, to_upload
    from cemlib.study.finished import finished, run_job
    from cemlib.study.job import with_needs

    if options.only == "track":
        yield str(to_upload(plan, jobs).track(options.uri))
    elif options.only == "publish":
        yield from publish_report(plan, jobs, options.config)
    elif options.only is not None:
        kind = [job for job in jobs if job.name.partition("/")[0] == options.only]
        for job in _named(kind, asked):
            yield from job.call()
    else:
        plan.write_config()
        for job in with_needs(jobs, _named(jobs, asked)):
            if not finished(job):
                yield from run_job(job)


def _named(jobs: Sequence["Job"], parts: set[str]) -> list["Job"]:
    """Return the jobs that have all these parts in their names."""
    return [job for job in jobs if parts <= set(job.name.split("/"))]
