"""One job of a study, whatever its system."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cemlib.layout import DESCRIPTION
from cemlib.seal import RECORD

Call = Callable[[], Iterator[Path | str]]
DATA = "data"  # name of the prepared data among a job's inputs


@dataclass(frozen=True)
class Job:
    """One job.

    Attributes:
        name: The place of its log, without the ending.
        needs: Names of the jobs whose files it reads.
        inputs: Files that it reads, by what they are. Where a record has `<name>_sha256`, that is
            the checksum of the first of them.
        outputs: Files that it leaves; a job without any is never finished.
        settings: What of the configuration it depends on.
        sources: Source files that decide what it leaves.
        call: Carries it out; yields the files it wrote, and a line for each failed result.
        parts: Jobs that it carries out together, each with settings and sources of its own.
    """

    name: str
    needs: frozenset[str]
    inputs: Mapping[str, Sequence[Path]]
    outputs: Sequence[Path]
    settings: Any
    sources: Sequence[Path]
    call: Call
    parts: tuple["Job", ...] = ()

    @property
    def records(self) -> list[Path]:
        """Return those of its outputs that say what made the others, written last."""
        return [file for file in self.outputs if file.name in (RECORD, DESCRIPTION)]


def together(name: str, parts: Sequence[Job], call: Call) -> Job:
    """Return the job that carries out some jobs at once, which read the same files."""
    return Job(
        name,
        frozenset[str]().union(*(part.needs for part in parts)),
        parts[0].inputs,
        [file for part in parts for file in part.outputs],
        [part.settings for part in parts],
        sorted({file for part in parts for file in part.sources}),
        call,
        tuple(parts),
    )


def records_below(folder: Path, jobs: Iterable[Job]) -> list[Path]:
    """Return the records of some jobs that lie in a folder or deeper."""
    found = (record for job in jobs for record in job.records)
    return [record for record in found if record.is_relative_to(folder)]


def report_files(jobs: Iterable[Job]) -> list[Path]:
    """Return what the jobs without a record leave: tables, figures, pages."""
    return [file for job in jobs if not job.records for file in job.outputs]


def with_needs(jobs: Sequence[Job], chosen: Iterable[Job]) -> list[Job]:
    """Return some of all jobs and those that they need, in the order of all."""
    wanted = {job.name for job in chosen}
    for job in reversed(jobs):  # each comes after those it needs
        wanted |= job.needs if job.name in wanted else set()
    return [job for job in jobs if job.name in wanted]
