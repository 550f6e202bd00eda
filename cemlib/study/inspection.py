"""One result as its folder has it: settings, scores, provenance, and the state of its files."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cemlib.config.errors import ConfigError, nearest
from cemlib.records.files import FileError
from cemlib.records.seal import FILES, RECORD, check_files, read_sealed
from cemlib.study.job import AnyJob, owners

_NEEDED = ("kind", "status", "reason", "config", "provenance")
_NO_NUMBERS = {*_NEEDED, FILES, "experiment", "defence", "seed", "attack", "knowledge"}


def read_result(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the record of a result, and what is wrong with each damaged or absent file.

    Raises:
        FileError: if the record is missing, damaged, or no record of a result.
    """
    path = folder / RECORD
    record = read_sealed(path, _NEEDED)
    return record, [*_faults(path, record)]


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


def _faults(path: Path, record: Mapping[str, Any]) -> Iterator[str]:
    for file in (path.with_name(name) for name in record[FILES]):
        if not file.is_file():
            yield f"{file}: no such file, though its record names it; rerun its job"
        try:
            check_files(path, record, [file])
        except FileError as error:
            yield str(error)


def numbers(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores, counts and costs of a record, without identity and checksums."""
    return dict(_numbers(record))


def _numbers(record: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in record.items():
        if key in _NO_NUMBERS or key.endswith("sha256"):
            continue
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
