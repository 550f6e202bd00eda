"""The status and the content of results, by their records."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cemlib.config.errors import ConfigError, nearest
from cemlib.records.files import FileError
from cemlib.records.scores import UNBOUNDED
from cemlib.records.seal import FILES, RECORD, check_files, read_sealed
from cemlib.study.job import AnyJob, owners

FINISHED, FAILED, DAMAGED, ABSENT, STALE = "finished", "failed", "damaged", "absent", "stale"
_NEEDED = ("kind", "status", "reason", "config", "provenance")
_NO_NUMBERS = {*_NEEDED, FILES, "experiment", "defence", "seed", "attack", "knowledge"}


def read_status(record: Path) -> tuple[str, str, dict[str, Any]]:
    """Return the status of a result by its record alone, a note, and the record's content.

    The content is empty for `damaged` (not as it was written) and `absent` records.
    """
    if not record.is_file():
        return ABSENT, "", {}
    try:
        found = read_sealed(record, ("status", "reason"))
    except FileError as error:
        return DAMAGED, str(error), {}
    if found["status"] == "ok":
        return FINISHED, "", found
    return FAILED, str(found["reason"]), found


def failure(root: Path, written: Path | str) -> Iterator[str]:
    """Yield a line if a job of the study in `root` has written the record of a failed result."""
    if not isinstance(written, Path) or written.name != RECORD:
        return
    status, reason, _ = read_status(written)
    if status == FAILED:
        yield f"failed: {name_of(root, written)}: {reason}"


def failed_results(root: Path, jobs: Sequence[AnyJob]) -> Iterator[str]:
    """Yield a line for each failed result in `root` so far; raise FileError if one is damaged.

    Jobs that need a failed one are left out, since they fail with it.
    """
    failed = set[str]()
    for job in jobs:
        for record in (path for path in job.records if path.name == RECORD):
            status, reason, _ = read_status(record)
            if status == DAMAGED:
                raise FileError(reason)
            if not job.needs & failed:
                yield from failure(root, record)
            failed |= {job.name} if status == FAILED else set()


def find_folder(
    name: str, jobs: Callable[[], Iterable[AnyJob]]
) -> tuple[Path, dict[Path, AnyJob | None]]:
    """Return the folder of a result, and the records of the study with their jobs.

    The `name` is the path of a folder, which belongs to no study and whose records have no jobs, or
    a place in the results: `judge`, `<defence>/seed<k>`, `<defence>/seed<k>/<attack>-<knowledge>`.

    Raises:
        ConfigError: if it is neither; the message has the nearest name.
    """
    path = Path(name).resolve()  # its last parts say what it holds, so `..` is followed
    if (path / RECORD).is_file():
        return path, dict.fromkeys([path / RECORD, *path.glob(f"attacks/*/{RECORD}")])
    owned = owners(jobs())
    places = named_folders(owned)
    if name not in places:
        raise ConfigError(
            f"{name!r}: neither the folder of a run or an attack nor the name of one in this study"
            f"{nearest(name, places)}; `cemlib list runs` lists the runs"
        )
    return places[name], {**owned}


def named_folders(owned: Mapping[Path, AnyJob]) -> dict[str, Path]:
    """Return the folders of a study's results by their names; `owned` has files with their jobs."""
    results = ((path, job) for path, job in owned.items() if path.name == RECORD)
    return {name_of(job.plan.layout.root, path): path.parent for path, job in results}


def name_of(root: Path, record: Path) -> str:
    """Return the name of a result of the study in `root`: its place, without `runs`, `attacks`."""
    place = record.parent.relative_to(root).as_posix()
    return place.removeprefix("runs/").replace("/attacks/", "/")


def read_result(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the record of a result, and what is wrong with each damaged or absent file.

    Raises:
        FileError: if the record is missing, damaged, or no record of a result.
    """
    path = folder / RECORD
    record, faults = read_sealed(path, _NEEDED), list[str]()
    for file in (path.with_name(name) for name in record[FILES]):
        if not file.is_file():
            faults.append(f"{file}: no such file, though its record names it; rerun its job")
        try:
            check_files(path, record, [file])
        except FileError as error:
            faults.append(str(error))
    return record, faults


def numbers(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield scores, counts and costs of a record by their dotted names."""
    for key, value in record.items():
        if key in _NO_NUMBERS or key.endswith("sha256"):
            continue
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}{key}.")
        else:
            unbounded = value is None and key in UNBOUNDED and record.get("status") == "ok"
            yield f"{prefix}{key}", math.inf if unbounded else value
