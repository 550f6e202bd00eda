"""What the plans of all systems share: where files lie, the prepared data, checkpoints."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from cemlib.config.data import DataConfig
from cemlib.config.errors import ConfigError
from cemlib.errors import nearest
from cemlib.files import FileError, read_json, write_json
from cemlib.layout import Layout
from cemlib.provenance import fingerprint, library_versions, source_files
from cemlib.study.job import Call, Job

FORMATS = ("png", "svg")  # of every figure


class AnyStudy(Protocol):
    """Hold what the configurations of all systems have."""

    @property
    def experiment(self) -> str:
        """Name of its result folder."""

    @property
    def results(self) -> str:
        """Return where that folder lies."""

    @property
    def threads(self) -> int:
        """CPU threads of each job."""

    @property
    def data(self) -> DataConfig:
        """The images and their splits."""

    def data_slice(self) -> dict[str, Any]:
        """Return what the preparation of the data depends on."""

    def report_slice(self) -> dict[str, Any]:
        """Return what tables and figures depend on beside the results."""

    def model_dump(self, *, mode: str, by_alias: bool) -> dict[str, Any]:
        """Return it as plain dicts."""


_Study = TypeVar("_Study", bound=AnyStudy, covariant=True)
_Name = TypeVar("_Name", str, int)


@dataclass(frozen=True)
class StudyPlan(ABC, Generic[_Study]):
    """Say where the files of one study lie, and what decides them."""

    study: _Study

    @property
    def layout(self) -> Layout:
        """Return where the study's files lie."""
        return Layout(Path(self.study.results) / self.study.experiment)

    def write_config(self) -> None:
        """Write the configuration down with its defaults filled in, if what is there is another.

        It is no job's input in the workflow: what a job depends on is its slice of it. Without
        Snakemake, its time tells tables and figures to follow.
        """
        settings = self.study.model_dump(mode="json", by_alias=True)
        try:
            before = read_json(self.layout.config)
        except FileError:
            before = None
        if before != settings:
            write_json(self.layout.config, settings)

    def prepare_sources(self) -> tuple[Path, ...]:
        """Source files that decide the prepared data."""
        return source_files("cemlib.data.prepare", data=self.study.data.source)

    def checkpoint(self, *parts: Any) -> Path:
        """Folder of a job's checkpoint; the parts say which job, by what and of what."""
        text = json.dumps([*parts, library_versions()], sort_keys=True)
        return self.layout.checkpoint(hashlib.sha256(text.encode()).hexdigest()[:20])

    def prepare_job(self) -> Job:
        """Return the job that prepares the data."""
        return Job(
            name="prepare",
            needs=frozenset(),
            inputs={},
            outputs=(self.layout.prepared, self.layout.prepared_facts),
            settings=_images(self.study),
            sources=self.prepare_sources(),
            call=partial(prepare, self),
        )

    def report_job(
        self,
        name: str,
        read: Iterable[Job],
        inputs: Mapping[str, Sequence[Path]],
        outputs: Sequence[Path],
        write: Call,
    ) -> Job:
        """Return a job that writes tables or figures from what some jobs left."""
        return Job(
            name=name,
            needs=frozenset(job.name for job in read),
            inputs={**inputs, "config": [self.layout.config]},
            outputs=outputs,
            settings=self.study.report_slice(),
            sources=self.report_sources(),
            call=write,
        )

    @abstractmethod
    def report_sources(self) -> tuple[Path, ...]:
        """Source files that decide the tables and figures."""


def prepare(plan: StudyPlan[AnyStudy]) -> Iterator[Path]:
    """Read, check, split and store the images; the description says by which settings and code."""
    from cemlib.data.prepare import prepare
    from cemlib.data.prepared import save

    prepared = prepare(plan.study.data)
    made_by = {"settings": _images(plan.study), "fingerprint": fingerprint(plan.prepare_sources())}
    origin = prepared.provenance | {"preparation": made_by}
    yield from save(replace(prepared, provenance=origin), plan.layout.data)


def chosen(what: str, known: Sequence[_Name], only: _Name | None) -> tuple[_Name, ...]:
    """Return all names (or numbers) of a kind, or the one asked for.

    Raises:
        ConfigError: if there is no such one; it names the nearest.
    """
    if only is None:
        return tuple(known)
    if only not in known:
        hint = nearest(only, known) if isinstance(only, str) else ""
        raise ConfigError(
            f"no {what} {only!r} in this study (it has {', '.join(map(str, known))}){hint}"
        )
    return (only,)


def named(folder: Path, names: Sequence[str], endings: Sequence[str]) -> list[Path]:
    """Return the files of some names, with every ending."""
    return [folder / f"{name}.{ending}" for name in names for ending in endings]


def _images(study: AnyStudy) -> dict[str, Any]:
    """Return the settings of the data without where the images lie, which is not what they are."""
    return {key: value for key, value in study.data_slice().items() if key != "root"}
