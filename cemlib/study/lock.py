"""One runner at a time on the results of a study.

The operating system holds the lock, on a file beside the results, and frees it when the process
ends in whatever way, so that no stale lock is ever left. Snakemake has a lock of its own, and the
two do not know of each other.
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
            holder = path.read_text() or "another process"
            raise FileError(
                f"{path}: {holder} is running this study with the same results; wait until it ends,"
                " or give the study another folder (`results`)"
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield
