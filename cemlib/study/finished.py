"""Whether the files of a job are those that it would write now: one notion for every system.

The record of a result says by which settings and which code it was made, and of which inputs by
their checksums. An attack on a split model names no checksum of all that it read, so the times of
the files have to say that it came after the run, the judge and the decoder; likewise tables and
figures, which have no record, came after the results. Copy a result folder with its times
(`cp -p`, `rsync -a`, `tar`): otherwise finished attacks may be carried out again, to the same
numbers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from cemlib.records.files import FileError, sha256
from cemlib.records.layout import TENSORS
from cemlib.records.seal import FILES, read_sealed
from cemlib.study.job import DATA, AnyJob
from cemlib.study.standing import failure


def finished(job: AnyJob) -> bool:
    """Return whether a job need not run; what it needs must be finished."""
    if not job.outputs or not _are_there(job.outputs):
        return False
    if job.records:
        return not stale(job)
    return _came_after(job.outputs, [*_all(job.inputs.values()), *job.sources])


def stale(job: AnyJob) -> list[Path]:
    """Return the records of a job that are missing, damaged, or of what it would not do now."""
    if job.parts:
        return [record for part in job.parts for record in stale(part)]
    made_by = job.made_by()
    return [record for record in job.records if not _is_current(job, record, made_by)]


def run_job(job: AnyJob) -> Iterator[Path | str]:
    """Carry out what is not finished of a job; yields what `rerun_job` does.

    Records that would say that it is finished are deleted first.
    """
    for record in stale(job):
        record.unlink(missing_ok=True)
    left = tuple(part for part in job.parts if stale(part))
    if left or not job.parts:
        yield from rerun_job(replace(job, parts=left))


def rerun_job(job: AnyJob) -> Iterator[Path | str]:
    """Carry out a job, finished or not; yields its files, and a line for each failed result."""
    for written in job.call(job):
        yield from failure(job.plan.layout.root, written)
        yield written


def _is_current(job: AnyJob, path: Path, made_by: dict[str, Any]) -> bool:
    try:
        record = read_sealed(path)
    except FileError:
        return False
    beside = [file for file in job.outputs if file.parent == path.parent]
    return (
        _made_by(record) == made_by
        and _are_there(beside)
        and all(_is_same(path.with_name(name), sum_) for name, sum_ in _checksums(record).items())
        and _has_read(job, path, record)
    )


def _made_by(record: dict[str, Any]) -> Any:
    """Return settings and code as a record has them; prepared data say where they come from."""
    if "source" in record:
        return record["source"].get("preparation")
    code = record.get("provenance", {}).get("fingerprint")
    return {"settings": record.get("config"), "fingerprint": code}


def _checksums(record: dict[str, Any]) -> dict[str, str]:
    """Return the checksums of the files beside a record, by name."""
    prepared = {TENSORS: record["sha256"]} if "source" in record else {}
    return {**record.get(FILES, {}), **prepared}


def _has_read(job: AnyJob, path: Path, record: dict[str, Any]) -> bool:
    """Return whether a result came of a job's inputs as they are now.

    A record that names none of them by checksum is compared by its time, but for the data: what it
    was made from names those.
    """
    keys = {f"{name}_sha256": files for name, files in job.inputs.items()}
    named = [key for key in keys if key in record]
    if named:
        return all(_is_same(keys[key][0], record[key]) for key in named)
    return _came_after([path], _all(files for name, files in job.inputs.items() if name != DATA))


def _came_after(written: Iterable[Path], read: Iterable[Path]) -> bool:
    """Return whether all files that were read are there, and none is newer than one written."""
    files = list(read)
    newest = max((_time(file) for file in files if file.is_file()), default=0)
    return _are_there(files) and min(map(_time, written)) >= newest


def _all(groups: Iterable[Iterable[Path]]) -> list[Path]:
    return [file for group in groups for file in group]


def _are_there(paths: Iterable[Path]) -> bool:
    return all(path.is_file() for path in paths)


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns


def _is_same(file: Path, checksum: str | None) -> bool:
    return file.is_file() and _sha256(file, _time(file), file.stat().st_size) == checksum


@lru_cache(maxsize=64)
def _sha256(file: Path, _time: int, _size: int) -> str:
    """Return a file's checksum, computed once while it stays as it is: every job reads the data."""
    return sha256(file)
