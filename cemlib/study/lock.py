"""One runner at a time on the results of a study.

The lock is the operating system's, on a file beside the results: it goes with the process that
holds it, however that ends, so that there is never a stale one to remove. It says nothing to
Snakemake, which has a lock of its own, of files: these stay where Snakemake is killed.
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


def is_abandoned(folder: Path) -> bool:
    """Return whether Snakemake's lock lies in a folder where neither it nor a job of it works.

    Known of the processes of this machine alone, and where it has `/proc`.
    """
    if not any(folder.glob(".snakemake/locks/*.lock")) or not Path("/proc/self/cwd").exists():
        return False
    others = (place for place in Path("/proc").glob("[0-9]*") if place.name != str(os.getpid()))
    return not any(_works_in(folder, process) for process in others)


def _works_in(folder: Path, process: Path) -> bool:
    try:
        program = (process / "cmdline").read_text(errors="replace").split("\0")
        is_ours = Path(*program[1:2]).name == "snakemake" or program[1:4] == ["-m", "cemlib", "run"]
        return is_ours and (process / "cwd").resolve() == folder.resolve()
    except OSError:  # it has ended, or is another user's
        return False


def _refusal(path: Path) -> str:
    return (
        f"{path}: {path.read_text() or 'another process'} is carrying out this study with the same"
        " results; wait until it ends, or give the study another folder (`results`)"
    )
