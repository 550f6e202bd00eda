"""Checksums of results: the record that a job writes last vouches for itself and its other files.

A flipped bit in a weight or in a score is another number and no error, so whoever reads a result
compares it with what its job wrote.
"""

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cemlib.records.files import FileError, finite, read_record, sha256, write_json

FILES = "files"  # key: SHA-256 of every other file of the result, by name
OWN = "record_sha256"  # key: of the record's content without this key
RECORD = "metrics.json"


def write_sealed(path: Path, record: Mapping[str, Any], files: Iterable[Path] = ()) -> None:
    """Write a result's record, with the checksums of its other files and its own, both anew."""
    content = finite({**record, FILES: {file.name: sha256(file) for file in files}})
    as_read = json.loads(json.dumps(content))  # its keys are text, whatever they were
    write_json(path, content | {OWN: _digest(as_read)})


def read_sealed(path: Path, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Read a record.

    Raises:
        FileError: if it is missing, lacks one of the keys, or differs from what was written.
    """
    found = read_record(path, keys)
    check_record(path, found)
    return found


def check_record(path: Path, record: Mapping[str, Any]) -> None:
    """Compare what was read of a record with its own checksum.

    Raises:
        FileError: if it differs, or is not there.
    """
    if FILES not in record or record.get(OWN) != _digest(record):
        raise _damaged(path, path)


def check_files(path: Path, record: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Compare files with the checksums that the record at `path` has of them.

    What is absent is left to its reader, who says so.

    Raises:
        FileError: if one differs.
    """
    check_sums(path, record, {file.name: sha256(file) for file in files if file.is_file()})


def check_sums(path: Path, record: Mapping[str, Any], found: Mapping[str, str]) -> None:
    """Compare files that were read already: their checksums by name."""
    expected = record[FILES]
    for name, checksum in found.items():
        if expected.get(name, checksum) != checksum:
            raise _damaged(path.with_name(name), path)


def checked(file: Path) -> Path:
    """Return a file of a run or an attack, after comparing it with the record beside it.

    Raises:
        FileError: if one of the two differs from what was written.
    """
    record = file.with_name(RECORD)
    check_files(record, read_sealed(record), [file])
    return file


def _digest(content: Mapping[str, Any]) -> str:
    """Return the checksum of a record without the key that holds it."""
    own = {key: value for key, value in content.items() if key != OWN}
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()


def _damaged(file: Path, record: Path) -> FileError:
    return FileError(
        f"{file}: damaged or changed after it was written (its checksum differs); delete {record}"
        f" and run the study again, or repeat its job: {_command(record)}"
    )


def _command(record: Path) -> str:
    """Return the command that makes a result again, by its record or its place."""
    if told := _told(record):
        return told
    folder = record.parent
    if record.name != RECORD:
        return "cemlib prepare"
    if folder.name == "judge":
        return "cemlib train --defence judge"
    attack = folder.name.rpartition("-")[0] if folder.parent.name == "attacks" else ""
    run = folder.parents[1] if attack else folder
    chosen = ["--defence", run.parent.name, "--seed", run.name.removeprefix("seed")]
    words = ["attack", *chosen, "--attack", attack] if attack else ["train", *chosen]
    return shlex.join(["cemlib", *words])


def _told(record: Path) -> str | None:
    """Return the command in the record of another system, if the record can still be read."""
    try:
        found = read_record(record, ())
    except FileError:
        return None
    command = found.get("command")
    is_ours = isinstance(command, str) and command.startswith("cemlib ") and command.isprintable()
    return command if is_ours else None
