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
    """The jobs of one kind.

    Attributes:
        name: Of the rule.
        outputs: Files that a job leaves, with wildcards.
        threads: Of each job.
        gpu: Cards that a job can use.
        log: What it prints, with wildcards.
        benchmark: What it took, with wildcards.
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
        """Return what each wildcard may stand for, as a regular expression."""
        known = (dict.fromkeys(each) for each in zip(*self._jobs, strict=True))
        texts = ("|".join(map(re.escape, each)) for each in known)
        return dict(zip(self._keys, texts, strict=True))

    def job(self, wildcards: Mapping[str, str]) -> AnyJob:
        """Return the job that wildcards stand for."""
        return self._jobs[self._values(wildcards)]

    def inputs(self, wildcards: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the files that a job reads; of the configuration, its settings tell what."""
        found = self.job(wildcards).inputs.items()
        return {name: list(map(str, files)) for name, files in found if name != CONFIG}

    def sources(self, wildcards: Mapping[str, str]) -> list[str]:
        """Return source files from the working directory: a moved checkout is no changed input."""
        return [os.path.relpath(file) for file in self.job(wildcards).sources]

    def settings(self, wildcards: Mapping[str, str]) -> Any:
        """Return what of the configuration a job depends on, and where images are read."""
        job = self.job(wildcards)
        return [job.settings, job.plan.study.data.root] if job.kind == "prepare" else job.settings

    def job_name(self, wildcards: Mapping[str, str]) -> str:
        """Return the name of a job."""
        return self.job(wildcards).name

    def _values(self, of: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(of[key]) for key in self._keys)


@dataclass(frozen=True)
class Planned:
    """A study in the workflow.

    Attributes:
        target: By which it is asked for.
        prefix: Of the names of its rules.
        plan: The study.
        jobs: All its jobs.
        config: What they read: the configuration with its defaults filled in.
    """

    target: str
    prefix: str
    plan: AnyPlan
    jobs: Sequence[AnyJob]
    config: Path

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
