"""Run a job, with the checks before it and the notes after it."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cemlib.records.files import FileError
from cemlib.records.provenance import forget_peak_memory, remember
from cemlib.study.finished import mismatches, refuse, stale, time_of
from cemlib.study.job import AnyJob, owners
from cemlib.study.status import failure


def run_job(job: AnyJob) -> Iterator[Path | str]:
    """Run the parts of a job that are not finished, and yield what `rerun_job` yields.

    Their old records are deleted first, so that an interrupted job never looks finished.
    """
    for record in filter(Path.exists, stale(job)):
        # Its learning curve, without the record, would be taken for one that grows.
        record.with_name("history.jsonl").unlink(missing_ok=True)
        record.unlink()
    left = tuple(part for part in job.parts if stale(part))
    if left or not job.parts:
        yield from rerun_job(replace(job, parts=left))


def rerun_job(job: AnyJob) -> Iterator[Path | str]:
    """Run a job, finished or not; yield its files, and a line for each failed result.

    If the configuration beside the results has other settings, tables and figures are dated before
    it, so that the study with those settings makes them again.

    Raises:
        FileError: if a result that it reads is missing, or does not belong to the study.
    """
    own = set(job.records)
    read = {path: owner for path, owner in owners(job.reads).items() if path not in own}
    for record, owner in read.items() if own else ():
        if not record.is_file():
            raise FileError(
                f"{record}: no such file; run the job {owner.name} first (`cemlib run` runs all"
                " jobs whose files are missing)"
            )
    if not job.plan.stale:
        refuse(mismatches(read))
    for part in (job, *job.parts):
        remember(part.sources)
    makes_report = not job.records and not job.plan.stale
    if makes_report and not job.plan.layout.config.is_file():
        job.plan.write_config()
    forget_peak_memory()
    for written in job.call(job):
        yield from failure(job.plan.layout.root, written)
        yield written
    if makes_report and not job.plan.is_configured():
        before = time_of(job.plan.layout.config) - 1
        for path in job.outputs:
            os.utime(path, ns=(before, before))
