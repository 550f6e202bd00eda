"""One result as its folder has it: settings, scores, provenance, and the state of its files."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cemlib.config.errors import ConfigError, nearest
from cemlib.records.files import FileError
from cemlib.records.seal import FILES, RECORD, check_files, read_sealed
from cemlib.study.job import AnyJob, owners

WHOLE, DAMAGED, ABSENT = "as written", "damaged", "absent"
_NEEDED = ("kind", "status", "reason", "config", "provenance")
_NO_NUMBERS = {*_NEEDED, FILES, "experiment", "defence", "seed", "attack", "knowledge"}


@dataclass(frozen=True)
class Result:
    """A finished run or attack, its record and the state of its files.

    Attributes:
        folder: Folder of the result.
        record: Content of its `metrics.json`.
        seals: State of the record and of each file whose checksum it has: `as written`, `damaged`
            or `absent`.
        faults: What to do about each damaged or absent file.
    """

    folder: Path
    record: Mapping[str, Any]
    seals: Mapping[str, str]
    faults: tuple[str, ...]

    @property
    def numbers(self) -> dict[str, Any]:
        """Return scores, counts and costs, without identity and checksums."""
        return dict(_numbers(self.record))

    @property
    def attacks(self) -> list[Path]:
        """Return the records of the attacks on it, in the order of their names."""
        return sorted(self.folder.glob(f"attacks/*/{RECORD}"))


def read_result(folder: Path) -> Result:
    """Read a result and compare its files with their checksums.

    Raises:
        FileError: if the record is missing, damaged, or no record of a result.
    """
    path = folder / RECORD
    record = read_sealed(path, _NEEDED)
    states = {name: _state(path, record, name) for name in record[FILES]}
    seals = {RECORD: WHOLE} | {name: state for name, (state, _) in states.items()}
    return Result(folder, record, seals, tuple(fault for _, fault in states.values() if fault))


def find_folder(
    name: str, jobs: Callable[[], Iterable[AnyJob]]
) -> tuple[Path, dict[Path, AnyJob | None]]:
    """Return the folder of a result, and the records of the study with their jobs.

    A folder that is named by its path belongs to no study, and its records have no jobs.

    Args:
        name: A folder with a record, or its place in the results without `runs` and `attacks`:
            `judge`, `<defence>/seed<k>`, `<defence>/seed<k>/<attack>-<knowledge>`.
        jobs: Gives the jobs of the study; called only if the name is no such folder.

    Raises:
        ConfigError: if it is neither; the message has the nearest name.
    """
    path = Path(name)
    if (path / RECORD).is_file():
        return path, dict.fromkeys([path / RECORD, *path.glob(f"attacks/*/{RECORD}")])
    owned = owners(jobs())
    places = {_name(job, record): record.parent for record, job in owned.items()}
    if name not in places:
        raise ConfigError(
            f"{name!r}: no folder of a run or an attack, and no name of one in this study"
            f"{nearest(name, places)}; `cemlib list runs` lists the runs"
        )
    return places[name], {**owned}


def _name(job: AnyJob, record: Path) -> str:
    """Return the name of a result: its place without the folders that hold many."""
    place = record.parent.relative_to(job.plan.layout.root).as_posix()
    return place.removeprefix("runs/").replace("/attacks/", "/")


def _state(path: Path, record: Mapping[str, Any], name: str) -> tuple[str, str]:
    """Return the state of a file by the record at `path`, and what to do about it."""
    file = path.with_name(name)
    if not file.is_file():
        return ABSENT, f"{file}: no such file, though its record names it; rerun its job"
    try:
        check_files(path, record, [file])
    except FileError as error:
        return DAMAGED, str(error)
    return WHOLE, ""


def _numbers(record: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in record.items():
        if key in _NO_NUMBERS or key.endswith("sha256"):
            continue
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
