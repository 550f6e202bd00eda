"""Checksums of results, in the record that a job writes last.

A flipped bit in a weight or a score would change a number without any error. So every reader of a
result compares its files with the checksums.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cemlib.records.files import FileError, finite, read_record, sha256, write_json

FILES = "files"  # key of the SHA-256 of every other file of the result, by name
OWN = "record_sha256"  # key of the SHA-256 of the record's content without this key
RECORD = "metrics.json"


def write_sealed(path: Path, record: Mapping[str, Any], files: Iterable[Path] = ()) -> None:
    """Write a result's record, with the checksums of its other files and of the record itself."""
    content = finite({**record, FILES: {file.name: sha256(file) for file in files}})
    as_read = json.loads(json.dumps(content))  # which turns keys into text
    write_json(path, content | {OWN: _digest(as_read)})


def read_sealed(path: Path, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Read a record; raise FileError if it is missing, lacks a key, or is not as it was written."""
    found = read_record(path, keys)
    check_record(path, found)
    return found


def check_record(path: Path, record: Mapping[str, Any]) -> None:
    """Compare a record with its own checksum; raise FileError if it differs or is missing."""
    if FILES not in record or record.get(OWN) != _digest(record):
        raise _damaged(path, path)


def check_files(path: Path, record: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Raise FileError if a file that exists differs from its checksum in the record at `path`."""
    check_sums(path, record, {file.name: sha256(file) for file in files if file.is_file()})


def check_sums(path: Path, record: Mapping[str, Any], found: Mapping[str, str]) -> None:
    """Compare the checksums of files that were read already, by name, with those of a record."""
    expected = record[FILES]
    for name, checksum in found.items():
        if expected.get(name, checksum) != checksum:
            raise _damaged(path.with_name(name), path)


def checked(file: Path) -> Path:
    """Return a file of a result; raise FileError if it or its record is not as it was written."""
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
        " and run the study again"
    )
