"""A study of any system, with the place of its files."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from cemlib.config.common import AnyStudy
from cemlib.config.errors import ConfigError, nearest
from cemlib.records.files import FileError, read_json, write_json
from cemlib.records.layout import Layout

StudyT = TypeVar("StudyT", bound=AnyStudy, covariant=True)
_Name = TypeVar("_Name", str, int)


@dataclass(frozen=True)
class Plan(Generic[StudyT]):
    """A study and the place of its files.

    Attributes:
        stale: Whether results made with other settings are reported too, in a folder of their own.
        device: `auto`, `cpu` or `cuda`, for the jobs that may use a GPU.
    """

    study: StudyT
    stale: bool = False
    device: str = "auto"

    @property
    def layout(self) -> Layout:
        """Return the paths of the study's files; raise ConfigError if their folder has braces."""
        part, root = "stale" if self.stale else "", Path(self.study.results).expanduser()
        if {"{", "}"} & {*str(root)}:
            raise ConfigError(f"{root}: braces would be wildcards of jobs; use another folder")
        return Layout(root / self.study.experiment, part)

    def write_config(self) -> None:
        """Write the configuration with its defaults filled in, unless the file has it already.

        Without Snakemake, tables and figures that are older than the file are written again.
        """
        if not self.is_configured():
            write_json(self.layout.config, self.study.plain())

    def is_configured(self) -> bool:
        """Return whether the configuration beside the results is that of this study."""
        try:
            # As text, since the order of defences, variants and attacks is that of the tables.
            return json.dumps(read_json(self.layout.config)) == json.dumps(self.study.plain())
        except FileError:
            return False


def chosen(what: str, known: Collection[_Name], only: _Name | None) -> tuple[_Name, ...]:
    """Return all names (or numbers), or the given one; raise ConfigError if it is unknown."""
    if only is None:
        return tuple(known)
    if only not in known:
        hint = nearest(only, known) if isinstance(only, str) else ""
        names = ", ".join(map(str, known)) or "none"
        raise ConfigError(f"no {what} {only!r} in this study (it has {names}){hint}")
    return (only,)
