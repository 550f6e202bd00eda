"""Decide whether the files of a job, of any system, are those that it would write now.

The record of a result holds its name, the settings and the code that made it, and checksums of its
inputs. They are compared before a job runs and before a number is shown.

The record of an attack lacks the checksum of weights that its settings name, and tables and figures
have no record. These must be newer than what they read: if a result folder is copied without its
times (`cp -p`, `rsync -a` and `tar` keep them), they may be made again, with the same numbers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from cemlib.config.differing import flatten
from cemlib.records.files import FileError
from cemlib.records.layout import DESCRIPTION, TENSORS, identity
from cemlib.records.seal import FILES, RECORD, check_files, read_sealed
from cemlib.study.job import AnyJob, owners
from cemlib.study.status import DAMAGED, FAILED, FINISHED, STALE, read_status

Known = dict[Path, list[str]]  # the answers of `differences` so far, by record
SHOWN = 3  # changed settings that a message names
ADVICE = (
    "run it again (`cemlib run`) or restore the settings; report, list and show take --stale, and"
    " mark such results"
)


def finished(job: AnyJob) -> bool:
    """Return whether a job need not run; the jobs that it reads must be finished."""
    if job.records:
        return not stale(job)
    read = [*chain.from_iterable(job.inputs.values()), *job.sources]
    return bool(job.outputs) and _came_after(job.outputs, read)


def stale(job: AnyJob) -> list[Path]:
    """Return the records of a job that are missing, damaged, or not what it would write now."""
    return [record for record, part in owners([job]).items() if not _is_current(part, record)]


def differences(job: AnyJob | None, path: Path, known: Known) -> list[str]:
    """Return how a result differs from what its job would write now; empty if it does not.

    Neither times nor large files are read, since inputs have records with checksums. A result
    also differs if one that it was made from does. Without a job, the record at `path` is compared
    with its folder's name alone. The answers so far, `known`, are extended.

    Raises:
        FileError: if the record, or that of an input, is missing or damaged.
    """
    if path not in known:
        told = list(_differences(job, path, read_sealed(path)))
        for before, owner in owners(job.reads if job and not told else ()).items():
            if before.is_file():
                found = differences(owner, before, known)
                told += [f"made from a result that was {one}" for one in found]
        known[path] = list(dict.fromkeys(told))
    return known[path]


def mismatches(owned: Mapping[Path, AnyJob | None]) -> Iterator[str]:
    """Yield a line for each difference of existing records; raise FileError if one is damaged."""
    known, found = Known(), dict[str, list[Path]]()
    for record, job in owned.items():
        for difference in differences(job, record, known) if record.is_file() else ():
            found.setdefault(difference, []).append(record.parent)
    for difference, folders in found.items():
        others = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
        yield f"{folders[0]}{others}: {difference}"


def refuse(told: Iterable[str]) -> None:
    """Raise FileError with all lines of `mismatches`, if there are any."""
    if lines := list(told):
        raise FileError("\n".join([*lines, ADVICE]))


def belonging(jobs: Sequence[AnyJob]) -> set[Path]:
    """Return the records that belong to the study, and the tables and figures of these alone."""
    known = Known()
    owned = owners(jobs).items()
    records = {path for path, job in owned if status_of(job, path, known)[0] != STALE}
    written = set[Path]()
    for job in jobs:
        if not job.records and set(owners(job.reads)) <= records and is_written(job):
            written |= set(job.outputs)
    return records | written


def status_of(job: AnyJob | None, path: Path, known: Known) -> tuple[str, str, dict[str, Any]]:
    """Return what `read_status` returns; the status may also be `stale`, by the job."""
    status, note, record = read_status(path)
    try:
        told = differences(job, path, known) if status in (FINISHED, FAILED) else []
    except FileError as error:  # about an input
        return DAMAGED, str(error), {}
    return (STALE, "; ".join(told), record) if told else (status, note, record)


def is_lost(job: AnyJob, record: Path, known: Known) -> bool:
    """Return whether a result lacks a file, has a damaged record, or has `differences`."""
    try:
        return not _are_there(beside(job, record)) or bool(differences(job, record, known))
    except FileError:
        return True


def beside(job: AnyJob, record: Path) -> list[Path]:
    """Return the files of a job in the folder of one of its records."""
    return [file for file in job.outputs if file.parent == record.parent]


def is_written(job: AnyJob) -> bool:
    """Return whether tables or figures exist and are newer than the settings and the results."""
    before = [job.plan.layout.config, *owners(job.reads)]
    return job.plan.is_configured() and _came_after(job.outputs, before)


def _is_current(job: AnyJob, path: Path) -> bool:
    try:
        record = read_sealed(path)
        listed = [path.with_name(name) for name in record[FILES]]
        if any(_differences(job, path, record)) or not _are_there([*beside(job, path), *listed]):
            return False
        check_files(path, record, listed)
    except FileError:
        return False
    roles = [name for name in job.inputs if not record.get(f"{name}_sha256")]
    return _came_after([path], chain.from_iterable(job.inputs[name] for name in roles))


def _differences(job: AnyJob | None, path: Path, record: dict[str, Any]) -> Iterator[str]:
    place = identity(path.parent)
    own = {key: str(record.get(key, place[key])) for key in place if key != "kind"}
    if other := [f"{key} {own[key]}" for key in own if own[key] != place[key]]:
        yield f"made for {', '.join(other)}"
    if job is None:
        return
    experiment = job.plan.study.experiment
    if record.get("experiment", experiment) != experiment:
        yield f"made for experiment {record['experiment']}"
    made, now = _made_by(record), job.made_by()
    if made["settings"] != now["settings"]:
        yield f"made with {_changes(job, made['settings'] or {}, now['settings'])}"
    if made["fingerprint"] != now["fingerprint"]:
        commit = record.get("provenance", {}).get("commit")
        yield "made by other code" + (f", of commit {commit[:12]}" if commit else "")
    for role, files in job.inputs.items():
        checksum = record.get(f"{role}_sha256")
        if checksum and _recorded(files[0]) not in (None, checksum):
            yield f"made from another {files[0]}"


def _made_by(record: dict[str, Any]) -> dict[str, Any]:
    """Return settings and code of a record; those of prepared data are part of their source."""
    if "source" in record:
        found = record["source"].get("preparation") or {}
        return {key: found.get(key) for key in ("settings", "fingerprint")}
    code = record.get("provenance", {}).get("fingerprint")
    return {"settings": record.get("config"), "fingerprint": code}


def _changes(job: AnyJob, before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return the settings that changed, by their names in the study's file."""
    one, two = dict(flatten(before)), dict(flatten(now))
    keys = [key for key in {**two, **one} if one.get(key) != two.get(key)]
    told = [
        f"{_key(job, key)} {one.get(key, 'absent')}, now {two.get(key, 'absent')}"
        for key in keys[:SHOWN]
    ]
    more = [f"{len(keys) - SHOWN} more"] if len(keys) > SHOWN else []
    return "; ".join([*told, *more]) or "other sections"


def _key(job: AnyJob, key: str) -> str:
    section, dot, rest = key.partition(".")
    if job.kind == "prepare":
        return f"data.{key}"
    return f"{section}s.{job.of[section]}.{rest}" if dot and section in job.of else key


def _recorded(file: Path) -> str | None:
    """Return the checksum of a file in the record beside it; None if there is no record."""
    record = file.with_name(DESCRIPTION if file.name == TENSORS else RECORD)
    if not record.is_file():
        return None
    found: str | None = read_sealed(record)[FILES].get(file.name)
    return found


def _came_after(written: Iterable[Path], read: Iterable[Path]) -> bool:
    """Return whether all files exist, and no read one is newer than a written one."""
    try:
        return min(map(time_of, written)) >= max(map(time_of, read), default=0)
    except FileNotFoundError:
        return False


def _are_there(paths: Iterable[Path]) -> bool:
    return all(path.is_file() for path in paths)


def time_of(path: Path) -> int:
    """Return when a file was written, in nanoseconds."""
    return path.stat().st_mtime_ns
