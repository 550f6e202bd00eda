"""One runner at a time on the results of a study.

The lock is the operating system's, on a file beside the results: it goes with the process that
holds it, however that ends, so that there is never a stale one to remove. It says nothing to
Snakemake, which has a lock of its own.
"""

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cemlib.records.files import FileError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock within this context.

    Raises:
        FileError: if another process holds it; the message names that process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FileError(_refusal(path)) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


def _refusal(path: Path) -> str:
    return (
        f"{path}: {path.read_text() or 'another process'} is carrying out this study with the same"
        " results; wait until it ends, or give the study another folder (`results`)"
    )
