"""The jobs of a study as rules of Snakemake: one for each kind, with wildcards."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cemlib.study.job import CONFIG, CPU, AnyJob, AnyPlan, records_below, report_files

WILDCARD = re.compile(r"{(\w+)}")


class JobRule:
    """The rule of all jobs of one kind.

    Its attributes are fields of a rule of Snakemake; paths have wildcards.
    """

    def __init__(self, name: str, jobs: Sequence[AnyJob]) -> None:
        first = jobs[0]
        root = first.plan.layout.root
        self.name, self.outputs = name, first.leaves
        self.log = root / "logs" / f"{first.pattern}.log"
        self.benchmark = root / "benchmarks" / f"{first.pattern}.tsv"
        self.gpu = int(first.device != CPU)
        self.threads = first.plan.study.threads if first.inputs and first.records else 1
        self._keys = WILDCARD.findall(first.pattern)
        self._jobs = {self._values(job.of): job for job in jobs}

    @property
    def constraints(self) -> dict[str, str]:
        """Return a regular expression of the values of each wildcard."""
        known = (dict.fromkeys(each) for each in zip(*self._jobs, strict=True))
        texts = ("|".join(map(re.escape, each)) for each in known)
        return dict(zip(self._keys, texts, strict=True))

    def job(self, wildcards: Mapping[str, str]) -> AnyJob:
        """Return the job with these values of the wildcards."""
        return self._jobs[self._values(wildcards)]

    def inputs(self, wildcards: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the files that a job reads but for the configuration, which `settings` covers."""
        found = self.job(wildcards).inputs.items()
        return {name: list(map(str, files)) for name, files in found if name != CONFIG}

    def sources(self, wildcards: Mapping[str, str]) -> list[str]:
        """Return source files by relative paths, so that a moved checkout reruns nothing."""
        return [os.path.relpath(file) for file in self.job(wildcards).sources]

    def settings(self, wildcards: Mapping[str, str]) -> Any:
        """Return the settings that a job depends on, and where the images are read."""
        job = self.job(wildcards)
        return [job.settings, job.plan.study.data.root] if job.kind == "prepare" else job.settings

    def job_name(self, wildcards: Mapping[str, str]) -> str:
        """Return the name of a job."""
        return self.job(wildcards).name

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

    @property
    def results(self) -> list[Path]:
        """Return the records of runs and of the attacks on them."""
        return records_below(self.plan.layout.root / "runs", self.jobs)
