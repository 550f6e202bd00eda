"""A job in its process: running it, writing its log, and telling how it ended."""

import gc
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from cemlib.config.errors import ConfigError
from cemlib.records.files import FileError
from cemlib.study.environment import exit_code, farewell, sigterm_raises
from cemlib.study.finished import run_job
from cemlib.study.job import AnyJob

# Exceptions whose message is meant for the user; any other one is a bug. An OSError names the file
# and the reason, such as a full disk or missing permissions.
USER_ERRORS = (ConfigError, FileError, OSError)


@dataclass(frozen=True)
class Outcome:
    """The result of a job: lines for the user, and the error that ended it, if any."""

    notes: tuple[str, ...] = ()
    error: str | None = None


def carry_out(job: AnyJob, log: Path) -> Outcome:
    """Run a job in this process until SIGTERM ends it; whatever it prints goes to its log."""
    try:
        with _printing_to(log), sigterm_raises():
            outcome = _outcome(job)
    except KeyboardInterrupt as interruption:
        # The executor would take it for the job's result, and give the process the next one.
        os._exit(exit_code(interruption))
    except OSError as error:  # those of the job are in its outcome
        fault = f"{log}: cannot be written: {error.strerror or error}; free some space or change"
        return Outcome(error=f"{fault} its permissions, then run the same command again")
    _return_memory()
    return outcome


def _outcome(job: AnyJob) -> Outcome:
    notes = []
    try:
        for written in run_job(job):
            print(written, flush=True)
            notes += [written] if isinstance(written, str) else []
    except USER_ERRORS as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return Outcome(tuple(notes), str(error))
    except KeyboardInterrupt as interruption:
        print(farewell(interruption), file=sys.stderr)
        raise
    except Exception as error:
        traceback.print_exc()
        return Outcome(tuple(notes), f"{type(error).__name__}: {error}")
    return Outcome(tuple(notes))


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Redirect what the process prints to a file, also from libraries below Python."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file, ExitStack() as redirected:
        for stream in (sys.stdout, sys.stderr):
            redirected.callback(_restore, stream, os.dup(stream.fileno()))
            os.dup2(file.fileno(), stream.fileno())
        yield


def _restore(stream: TextIO, descriptor: int) -> None:
    """Restore a stream, also if the last lines do not fit on the disk of its log."""
    try:
        stream.flush()
    finally:
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)


def _return_memory() -> None:
    """Free unused memory of the graphics card, which other slots share."""
    if "torch" in sys.modules:
        import torch

        gc.collect()
        torch.cuda.empty_cache()
