"""The commands that run a study; each yields the files that it wrote, and lines to print."""

import argparse
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.cli.exits import failing_at_end
from cemlib.cli.options import check_first, plan_of
from cemlib.records.files import FileError
from cemlib.records.seal import RECORD

if TYPE_CHECKING:
    from cemlib.study.job import AnyJob, AnyPlan
    from cemlib.tracking import Upload

ENDINGS = (".csv", ".md", ".png")  # of the published files


def prepare(options: argparse.Namespace) -> Iterator[Path | str]:
    """Read, check, split and store the images."""
    from cemlib.study.job import prepare_job

    yield from _carried_out([prepare_job(plan_of(options))])


def train(options: argparse.Namespace) -> Iterator[Path | str]:
    """Train defended classifiers, and the judge.

    Exit code 3 means that a training diverged.
    """
    from cemlib.study.split import train_job, trainings

    plan = plan_of(options)
    runs = trainings(plan, options.defence, options.seed)
    yield from _carried_out(train_job(plan, *run) for run in runs)


def attack(options: argparse.Namespace) -> Iterator[Path | str]:
    """Reconstruct images from a run's released features.

    Exit code 3 means that an attack diverged.
    """
    from cemlib.study.plan import chosen
    from cemlib.study.split import attack_job

    study = (plan := plan_of(options)).study
    known = study.attacks
    wanted = {chosen("attack", known, name)[0] for name in options.attack or known}
    attacks = [name for name in known if name in wanted]  # a decoder before what begins with it
    defences = chosen("defence", study.defences, options.defence)
    runs = product(defences, chosen("seed", study.seeds, options.seed))
    yield from _carried_out(attack_job(plan, *run, attacks) for run in runs)


def report(options: argparse.Namespace) -> Iterator[Path | str]:
    """Write tables and figures of finished jobs, and the results page.

    Results made with other settings, data or code than the study's are refused. With --stale they
    are included, and everything goes into the folder `stale` of the results, marked as such.

    Raises:
        FileError: if there are such results, without --stale.
    """
    from cemlib.config import ConfigError
    from cemlib.study.split import PARTS, jobs, tables_of_one

    if options.defence is not None and options.only not in (None, "tables"):
        raise ConfigError(f"--defence {options.defence}: only tables are made for one defence")
    plan, parts = plan_of(options), (options.only,) if options.only else PARTS
    found = jobs(plan) if options.defence is None else [tables_of_one(plan, options.defence)]
    yield from _carried_out(job for job in found if job.kind in parts)


def run(options: argparse.Namespace) -> Iterator[Path | str]:
    """Run all jobs of a study that are not finished, without Snakemake.

    Unless --only names jobs, the problems that `cemlib doctor` finds in a study are errors before
    the first job. The study may be of any system. Nothing is uploaded to MLflow. Exit code 3 means
    that a training or an attack diverged.
    """
    from cemlib.study.job import find_device
    from cemlib.study.schedule import run_study
    from cemlib.study.status import failed_results
    from cemlib.study.systems import named_jobs, read_study

    plan, jobs = read_study(options.config, options.set, options.device)
    if any(job.device == "cuda" for job in jobs):
        find_device("cuda")  # so that an error comes before any job; imports torch
    if options.only is not None:
        yield from _carried_out(named_jobs(jobs, options.only))
        return
    check_first(plan)
    yield from run_study(plan, jobs, options.slots)
    yield from failing_at_end(failed_results(plan.layout.root, jobs))


def _carried_out(jobs: "Iterable[AnyJob]") -> Iterator[Path | str]:
    """Run jobs in this process, finished or not."""
    from cemlib.study.running import rerun_job

    yield from failing_at_end(written for job in jobs for written in rerun_job(job))


def track(options: argparse.Namespace) -> Iterator[str]:
    """Upload the finished jobs of a study of any system to MLflow.

    Results made with other settings, data or code than the study's are left out, with a line each.
    """
    from cemlib.config.study import JUDGE
    from cemlib.study.finished import is_written, mismatches
    from cemlib.study.job import owners
    from cemlib.study.plan import chosen
    from cemlib.study.rules import restore_times
    from cemlib.study.systems import read_study

    plan, jobs = read_study(options.config, options.set)
    runs = (job.of for job in jobs if "defence" in job.of and job.kind != JUDGE)
    chosen("defence", dict.fromkeys(str(of["defence"]) for of in runs), options.defence)
    wanted = [job for job in jobs if options.defence in (None, job.of.get("defence"))]
    left_out = [*mismatches(owners(wanted))]
    yield from (f"not uploaded: {line}" for line in left_out)
    if not left_out:
        restore_times(wanted)
    if old := [job.name for job in wanted if not job.records and not is_written(job)]:
        yield f"not uploaded: {', '.join(old)}: absent, or older than its results or settings"
    study = to_upload(plan, jobs, options.defence)
    yield str(study.watch(options.uri) if options.watch else study.track(options.uri))


def publish(options: argparse.Namespace) -> Iterator[Path | str]:
    """Copy the tables and figures of a finished study to results/published.

    With --compare, nothing is copied; the differences from the published tables are printed.

    With --add, the seeds of this study join the published ones, for example if several machines
    each compute some seeds. The tables, and the figures that follow from them, then cover all
    seeds. Without --add, published tables and pictures that the study no longer makes are removed.

    Raises:
        ConfigError: if seeds are added to a study of another system than split inference, or if
            both options are given.
        FileError: if a result is missing, was made with other settings, data or code, or with code
            that was not committed; if tables or figures are older than results; or if a seed that
            is added is published already.
    """
    from cemlib.config import ConfigError
    from cemlib.report.publish import compare_published, publish
    from cemlib.study.finished import is_written, mismatches, refuse
    from cemlib.study.job import owners, records_below, report_files
    from cemlib.study.rules import restore_times
    from cemlib.study.systems import read_study

    if options.compare and options.add:
        raise ConfigError("--compare and --add: give only one of them")
    plan, jobs = read_study(options.config, options.set)
    refuse(mismatches(owners(jobs)))
    restore_times(jobs)
    if other := [job.name for job in jobs if not job.records and not is_written(job)]:
        fault = "absent, or older than its results or settings; `cemlib run` makes what is missing"
        raise FileError(f"{', '.join(other)}: {fault}")
    out, root = Path("results/published") / plan.study.experiment, plan.layout.root
    if options.compare:
        yield from compare_published(out, plan.layout.tables)
        return
    results = [path for part in ("gans", "runs") for path in records_below(root / part, jobs)]
    others = [path for path in owners(jobs) if path.name == RECORD and path not in results]
    files, changes = report_files(jobs), options.set
    if options.add:
        files, changes = _with_published(options, jobs, root, out / "runs.csv")
    kept = [file for file in files if file.suffix in ENDINGS]
    command = _command(options.config, changes)
    yield from publish(results, kept, out, command, others=others, joins_published=options.add)


def _command(config: Path, changes: Sequence[str]) -> str:
    """Return the command that runs a study again."""
    if not changes:
        return shlex.join(["snakemake", "--cores", "2", "--configfile", str(config)])
    words = (word for change in changes for word in ("--set", change))
    return shlex.join(["cemlib", "run", "--config", str(config), *words])


def _with_published(
    options: argparse.Namespace, jobs: "Sequence[AnyJob]", root: Path, table: Path
) -> tuple[list[Path], list[str]]:
    """Write tables and figures of the study's and the published seeds.

    Returns:
        The files, and what `--set` has to change so that the study has all these seeds.
    """
    from cemlib.config import ConfigError
    from cemlib.evaluation.report import results_of
    from cemlib.report.build import pooled, write_figures, write_tables
    from cemlib.study.systems import read_study

    tables = [job for job in jobs if job.kind == "tables"]
    if not tables:
        raise ConfigError("--add: only the seeds of studies of split inference can be added")
    both = pooled(results_of(tables[0]), root, table)
    changes, seeds = [c for c in options.set if not c.startswith("seeds=")], {*both.runs["seed"]}
    if seeds != {*read_study(options.config, changes)[0].study.seeds}:
        changes.append(f"seeds={sorted(seeds)}")
    out = root / "pooled"
    return [*write_tables(both, root, out), *write_figures(both, out)], changes


def to_upload(plan: "AnyPlan", jobs: Sequence["AnyJob"], part: str | None = None) -> "Upload":
    """Return what is uploaded: the results of all runs, or of one defence, and the report."""
    from cemlib.study.finished import belonging
    from cemlib.study.job import records_below, report_files
    from cemlib.tracking import Upload

    root, of_part = plan.layout.root, [j for j in jobs if part in (None, j.of.get("defence"))]
    files = records_below(root / "runs", of_part), report_files(jobs)
    return Upload(root, plan.study.experiment, *files, partial(belonging, jobs))
