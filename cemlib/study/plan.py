"""A study of any system with the place of its files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from cemlib.config.data import DataConfig
from cemlib.config.errors import ConfigError
from cemlib.errors import nearest
from cemlib.records.files import FileError, read_json, write_json
from cemlib.records.layout import Layout


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


StudyT = TypeVar("StudyT", bound=AnyStudy, covariant=True)
_Name = TypeVar("_Name", str, int)


@dataclass(frozen=True)
class Plan(Generic[StudyT]):
    """Hold a study, and say where its files lie.

    Attributes:
        study: Its configuration.
        stale: Whether its report is of results that are not the study's, and lies apart.
    """

    study: StudyT
    stale: bool = False

    @property
    def layout(self) -> Layout:
        """Return where the study's files lie."""
        part = "stale" if self.stale else ""
        return Layout(Path(self.study.results) / self.study.experiment, part)

    def settings(self) -> dict[str, Any]:
        """Return the configuration as plain dicts, its defaults filled in."""
        return self.study.model_dump(mode="json", by_alias=True)

    def write_config(self) -> None:
        """Write the configuration down with its defaults filled in, if what is there is another.

        It is no job's input in the workflow: what a job depends on is its slice of it. Without
        Snakemake, its time tells tables and figures to follow.
        """
        settings = self.settings()
        try:
            before = read_json(self.layout.config)
        except FileError:
            before = None
        if before != settings:
            write_json(self.layout.config, settings)


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
