"""One job of a study of any system: what it reads, writes and depends on."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from cemlib.config.common import AnyStudy
from cemlib.config.errors import ConfigError
from cemlib.records.layout import DESCRIPTION
from cemlib.records.provenance import (
    device_name,
    fingerprint,
    library_versions,
    peak_memory_mb,
    provenance,
    source_files,
)
from cemlib.records.seal import RECORD
from cemlib.study.plan import Plan, StudyT

if TYPE_CHECKING:
    import torch

Call: TypeAlias = "Callable[[Job[Any]], Iterable[Path | str]]"
# Roles of files among a job's inputs: the prepared data, the written configuration, and a file of
# weights that an attack's settings name.
DATA, CONFIG, FOREIGN = "data", "config", "weights"
WILDCARD = re.compile(r"{(\w+)}")
TABLE_FORMATS, FIGURE_FORMATS = ("csv", "md", "tex", "html"), ("png", "pdf")


@dataclass(frozen=True)
class Job(Generic[StudyT]):
    """One job; jobs of one kind differ only in the values of wildcards, as in Snakemake's rules.

    Attributes:
        pattern: The name with wildcards in braces, such as `train/{defence}/seed{seed}`.
        leaves: Files that it writes, with wildcards; a job without any is never finished.
        settings: The part of the configuration that it depends on.
        sources: Source files that decide what it writes.
        call: Runs it; returns the files that it wrote, and lines to print.
        of: Values of the wildcards, and further facts about the job.
        reads: Jobs whose files it reads.
        inputs: Files that it reads, by role. If a record has `<role>_sha256`, that is the checksum
            of the first of them.
        device: `auto`, `cpu` or `cuda`.
        parts: Jobs that it runs together, each with settings and sources of its own.
    """

    plan: Plan[StudyT]
    pattern: str
    leaves: Sequence[Path]
    settings: Any
    sources: Sequence[Path]
    call: Call
    of: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple["Job[StudyT]", ...] = ()
    inputs: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    device: str = "cpu"
    parts: tuple["Job[StudyT]", ...] = ()

    @property
    def kind(self) -> str:
        """Return the name of the kind, such as `train`."""
        return "_".join(part for part in self.pattern.split("/") if "{" not in part)

    @property
    def name(self) -> str:
        """Return the name, which is also the path of its log without the suffix."""
        return self.pattern.format(**self.of)

    @cached_property
    def needs(self) -> frozenset[str]:
        """Return the names of the jobs whose files it reads."""
        return frozenset(job.name for job in self.reads)

    @cached_property
    def outputs(self) -> list[Path]:
        """Return the files that it writes."""
        return [Path(str(file).format(**self.of)) for file in self.leaves]

    @property
    def records(self) -> list[Path]:
        """Return the outputs that are records, which say how the others were made."""
        return [file for file in self.outputs if file.name in (RECORD, DESCRIPTION)]

    @property
    def folder(self) -> Path:
        """Return the folder of its (first) record."""
        return self.records[0].parent

    def made_by(self) -> dict[str, Any]:
        """Return what decides its files, as in their record."""
        return {"settings": self.settings, "fingerprint": fingerprint(self.sources)}

    def checkpoint(self, *origin: str) -> Path:
        """Return its checkpoint's folder, named by a hash of all that decides the result.

        The `origin` is what the job does not know: checksums of the data, the device.
        """
        parts = [self.plan.study.experiment, self.name, self.made_by(), *origin, library_versions()]
        text = json.dumps(parts, sort_keys=True)
        return self.plan.layout.checkpoint(hashlib.sha256(text.encode()).hexdigest()[:20])

    def processor(self) -> "torch.device":
        """Return the device that it computes on."""
        return find_device(self.device)

    def record(self, reason: str | None) -> dict[str, Any]:
        """Return the fields that all records share; `reason` is why the job failed, if it did."""
        study, device = self.plan.study, device_name(self.processor().type)
        return {
            "status": "ok" if reason is None else "failed",
            "reason": reason,
            "experiment": study.experiment,
            "config": self.settings,
            "provenance": provenance(self.sources, device, study.threads),
            "peak_memory_mb": peak_memory_mb(),
        }


AnyJob: TypeAlias = Job[Any]
AnyPlan: TypeAlias = Plan[Any]


def together(pattern: str, parts: Sequence[Job[StudyT]]) -> Job[StudyT]:
    """Return one job that runs several which read the same files."""
    first = parts[0]
    of = {k: v for k, v in first.of.items() if all(part.of[k] == v for part in parts)}
    kept = {key: f"{{{key}}}" for key in WILDCARD.findall(pattern)}  # these stay wildcards
    return replace(
        first,
        pattern=pattern,
        of=of,
        reads=tuple({job.name: job for part in parts for job in part.reads}.values()),
        leaves=[Path(str(f).format(**{**part.of, **kept})) for part in parts for f in part.leaves],
        settings=[part.settings for part in parts],
        sources=sorted({file for part in parts for file in part.sources}),
        parts=tuple(parts),
    )


def prepare_job(plan: Plan[StudyT]) -> Job[StudyT]:
    """Return the job that prepares a study's images."""
    return Job(
        plan,
        "prepare",
        leaves=(plan.layout.prepared, plan.layout.prepared_facts),
        settings=plan.study.data_slice(),
        sources=source_files("cemlib.data.prepare", data=plan.study.data.source),
        call=prepare,
    )


def prepare(job: Job[AnyStudy]) -> Iterable[Path | str]:
    """Read, check, split and store the images, with the settings and code that prepared them."""
    from cemlib.data.prepare import prepare
    from cemlib.data.prepared import save

    made = job.made_by()  # before the code runs, since it may be edited meanwhile
    prepared = prepare(job.plan.study.data)
    origin = prepared.provenance | {"preparation": made}
    yield from save(replace(prepared, provenance=origin), job.plan.layout.data)
    if prepared.duplicates_train_test:
        yield (
            f"warning: {prepared.duplicates_train_test} of {len(prepared.test)} test images are"
            " equal to a training or validation image; scores on them are too optimistic"
        )


def report_job(
    plan: Plan[StudyT],
    pattern: str,
    read: Iterable[Job[StudyT]],
    inputs: Mapping[str, Sequence[Path]],
    leaves: Sequence[Path],
    **run: Any,
) -> Job[StudyT]:
    """Return a job that writes tables or figures from other jobs' files; `run` is from `run_by`."""
    return Job(
        plan,
        pattern,
        leaves,
        settings=plan.study.report_slice(),
        reads=tuple(read),
        inputs={**inputs, CONFIG: [plan.layout.config]},
        **run,
    )


def owners(jobs: Iterable[AnyJob]) -> dict[Path, AnyJob]:
    """Return for each record the job, or the part of one, that writes it."""
    parts = (part for job in jobs for part in job.parts or (job,))
    return {record: part for part in parts for record in part.records}


def records_below(folder: Path, jobs: Iterable[AnyJob]) -> list[Path]:
    """Return the records of some jobs that lie below a folder."""
    return [record for record in owners(jobs) if record.is_relative_to(folder)]


def report_files(jobs: Iterable[AnyJob]) -> list[Path]:
    """Return the files of the jobs without a record: tables, figures, pages."""
    return [file for job in jobs if not job.records for file in job.outputs]


def in_all_formats(
    plan: AnyPlan, tables: Sequence[str] = (), figures: Sequence[str] = ()
) -> list[Path]:
    """Return the files of some tables and figures, each in every format."""
    return [
        *(plan.layout.tables / f"{name}.{kind}" for name in tables for kind in TABLE_FORMATS),
        *(plan.layout.figures / f"{name}.{kind}" for name in figures for kind in FIGURE_FORMATS),
    ]


def run_by(module: str, *others: str, **members: str | None) -> dict[str, Any]:
    """Return the arguments `sources` and `call` of a job that the function `run` of a module runs.

    See `cemlib.records.provenance.source_files` for the other modules and `members`.
    """
    sources = source_files(module, *others, **members)
    return {"sources": sources, "call": partial(run_module, module)}


def run_module(module: str, job: AnyJob) -> Iterable[Path | str]:
    """Run a job by the function `run` of a module, imported only now: planning needs no torch."""
    found: Call = import_module(module).run
    return found(job)


def find_device(name: str) -> "torch.device":
    """Return the device, for `auto` a GPU if any; raise ConfigError for `cuda` without a GPU."""
    import torch

    usable = torch.cuda.is_available()
    if name == "cuda" and not usable:
        raise ConfigError("--device cuda: torch finds no usable CUDA device; use --device cpu")
    return torch.device("cuda" if usable and name != "cpu" else "cpu")
