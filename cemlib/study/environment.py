"""Set the environment variables of a job's process, and end it cleanly on a signal.

SIGTERM, which schedulers send before they kill, stops a job as Ctrl-C does. Both raise an exception
in the main thread, so that no file is half written, and a job can write its checkpoint.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Most are read when a process starts.
OF_JOBS = {
    # Idle threads that spin would slow down the other processes.
    "OMP_WAIT_POLICY": "passive",
    # Every step allocates and frees large tensors: keep their memory mapped.
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CONTINUE = "run the same command again to continue"


def set_for_jobs(threads: int | None = None) -> None:
    """Set the variables for this process and those it starts, unless the user has set them.

    The number of threads, if given, is set in any case, since results depend on it.
    """
    for name, value in OF_JOBS.items():
        os.environ.setdefault(name, value)
    if threads is not None:
        os.environ.update(dict.fromkeys(_THREADS, str(threads)))


class Terminated(KeyboardInterrupt):
    """The process was sent SIGTERM."""


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Let the first SIGTERM raise `Terminated` within this context, entered by the main thread.

    A second one is ignored: a process often gets it twice, with its group and from its parent, and
    would be stopped while it writes its checkpoint. Ctrl-C and SIGKILL still end it at once.
    """
    before = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def exit_code(interruption: KeyboardInterrupt) -> int:
    """Return the exit code after an interruption: 128 plus the signal's number, as in shells."""
    ended_by = signal.SIGTERM if isinstance(interruption, Terminated) else signal.SIGINT
    return 128 + ended_by


def farewell(interruption: KeyboardInterrupt) -> str:
    """Return the line that tells the user what happened, and how to continue."""
    cause = "terminated" if isinstance(interruption, Terminated) else "interrupted"
    return f"{cause}: {CONTINUE}"


def _raise(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler's arguments
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated
