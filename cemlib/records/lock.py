"""Locks on files: one runner on the results of a study, one tracker on a database.

The operating system frees a lock when its process ends, however it ends, so that none goes stale.
"""

import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cemlib.records.files import FileError, unwritable


@contextmanager
def locked(path: Path, fault: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock on a file, which is created if it is missing, within this context.

    Raises:
        FileError: if another process holds it for more than `patience` seconds (the message names
            it; `fault` says what it does, and what to do), or if the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("ab+", buffering=0)
    except OSError as error:
        raise unwritable(path, None, error) from error
    end = time.monotonic() + patience
    with opened as file:
        while not _taken(file):
            if time.monotonic() >= end:
                raise FileError(f"{path}: {path.read_text() or 'another process'} {fault}")
            time.sleep(0.1)
        try:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}".encode())
        except OSError as error:
            raise unwritable(path, None, error) from error
        yield


def _taken(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
