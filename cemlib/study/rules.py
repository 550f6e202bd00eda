"""The jobs of a study as rules of Snakemake: one for each kind, with wildcards."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cemlib.study.finished import Known, beside, is_lost
from cemlib.study.job import CONFIG, WILDCARD, AnyJob, AnyPlan, owners, report_files

LONG_AGO, YEAR = 2**30 * 10**9, 2**25 * 10**9  # nanoseconds: 34 years and one year


class JobRule:
    """The rule of all jobs of one kind; its attributes are fields of Snakemake's rules."""

    def __init__(self, name: str, jobs: Sequence[AnyJob]) -> None:
        first = jobs[0]
        layout = first.plan.layout
        self.name, self.outputs, self.job_name = name, first.leaves, first.pattern
        self.log = layout.logs / f"{first.pattern}.log"
        self.benchmark = layout.root / "benchmarks" / f"{first.pattern}.tsv"
        self.gpu = int(first.device != "cpu")
        self.threads = first.plan.study.threads if first.inputs and first.records else 1
        self._keys = WILDCARD.findall(first.pattern)
        self._jobs = {self._values(job.of): job for job in jobs}

    @property
    def constraints(self) -> dict[str, str]:
        """Return a regular expression for the values of each wildcard."""
        known = (dict.fromkeys(each) for each in zip(*self._jobs, strict=True))
        texts = ("|".join(map(re.escape, each)) for each in known)
        return dict(zip(self._keys, texts, strict=True))

    def job(self, wildcards: Mapping[str, str]) -> AnyJob:
        """Return the job with these values of the wildcards."""
        return self._jobs[self._values(wildcards)]

    def inputs(self, wildcards: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the files that a job reads, except the configuration, which `settings` covers."""
        found = self.job(wildcards).inputs.items()
        return {name: list(map(str, files)) for name, files in found if name != CONFIG}

    def sources(self, wildcards: Mapping[str, str]) -> list[str]:
        """Return source files by relative paths, so that a moved checkout reruns nothing."""
        return [os.path.relpath(file) for file in self.job(wildcards).sources]

    def settings(self, wildcards: Mapping[str, str]) -> Any:
        """Return the settings that a job depends on, and where the images are read."""
        job = self.job(wildcards)
        return [job.settings, job.plan.study.data.root] if job.kind == "prepare" else job.settings

    def _values(self, of: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(of[key]) for key in self._keys)


@dataclass(frozen=True)
class Planned:
    """A study in the workflow."""

    target: str  # name of the target for the whole study
    prefix: str  # of the names of its rules
    plan: AnyPlan
    jobs: Sequence[AnyJob]
    config: Path  # the configuration that its jobs read

    @cached_property
    def rules(self) -> list[JobRule]:
        """Return a rule for each kind of job."""
        kinds = dict.fromkeys(job.kind for job in self.jobs)
        alike = {kind: [job for job in self.jobs if job.kind == kind] for kind in kinds}
        return [JobRule(f"{self.prefix}{kind}", jobs) for kind, jobs in alike.items()]

    @property
    def written(self) -> list[Path]:
        """Return tables, figures and pages."""
        return report_files(self.jobs)


def age_lost_results(jobs: Sequence[AnyJob]) -> None:
    """Make results that do not belong to their study look old, and what shows them even older.

    Snakemake compares times, and settings only with those of the jobs that it ran itself. It would
    take results that `cemlib run` made with other settings for the study's; the old times make it
    run their jobs again. If it has recorded checksums of a job's inputs, it runs only the tables
    again, and these refuse such results. Results that belong to the study get their times back.
    """
    known, owned = Known(), owners(jobs).items()
    lost = {path for path, job in owned if path.is_file() and is_lost(job, path, known)}
    restore_times(jobs, lost)


def restore_times(jobs: Sequence[AnyJob], lost: Set[Path] = frozenset()) -> None:
    """Give results their times back, since `cemlib run`, `publish` and `track` compare them.

    `age_lost_results` changes them even in a dry run. Those of results with records in `lost`, and
    of what shows them, become old instead.
    """
    for record, job in owners(jobs).items():
        _age(beside(job, record), LONG_AGO, record in lost)
    for job in jobs:
        if not job.records:
            _age(job.outputs, LONG_AGO + YEAR, not lost.isdisjoint(owners(job.reads)))


def _age(files: Iterable[Path], by: int, lost: bool) -> None:
    """Set the times of files back by some nanoseconds, or forward again unless they are lost."""
    for file in filter(Path.is_file, files):
        time = file.stat().st_mtime_ns
        if lost != (time < LONG_AGO):
            time += -by if lost else by
            os.utime(file, ns=(time, time))
