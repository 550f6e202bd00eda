"""The processes that run jobs. Each runs one job after another, and so imports torch once.

What a job prints goes to its log, and its outcome to the process that started it.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TextIO

from cemlib.config.errors import ConfigError
from cemlib.records.files import FileError
from cemlib.records.provenance import PACKAGE, fingerprint
from cemlib.study.environment import exit_code, farewell, set_for_jobs, sigterm_raises
from cemlib.study.job import AnyJob
from cemlib.study.running import run_job

# Exceptions whose message is meant for the user; any other one is a bug. An OSError names the file
# and the reason, such as a full disk or missing permissions.
USER_ERRORS = (ConfigError, FileError, OSError)


@dataclass(frozen=True)
class Outcome:
    """The result of a job: lines for the user, and the error that ended it, if any."""

    notes: tuple[str, ...] = ()
    error: str | None = None


class Workers:
    """Slots for jobs that run at the same time, each with its own process and some CPU threads."""

    def __init__(self, slots: int, threads: int) -> None:
        set_for_jobs(threads)
        self.slots = slots
        self.idle = [_Slot() for _ in range(slots)]
        self._all = list(self.idle)
        self.busy: dict[Future[Outcome], tuple[AnyJob, _Slot, float]] = {}  # with its start

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the processes; jobs that are still running keep their checkpoints."""
        if self.busy or kind is not None:
            for process in multiprocessing.active_children():
                process.terminate()
        for slot in self._all:  # after Ctrl-C one may be neither idle nor busy
            slot.close()

    def start(self, job: AnyJob, log: Path) -> None:
        """Start a job in a free slot; what it prints goes to the file `log`."""
        slot = self.idle.pop()
        self.busy[slot.submit(job, log)] = (job, slot, time.perf_counter())

    def wait(self) -> Iterator[tuple[AnyJob, float, Outcome]]:
        """Wait until a job ends; yield each that has, with its seconds and outcome."""
        for future in wait(self.busy, return_when=FIRST_COMPLETED).done:
            job, slot, start = self.busy.pop(future)
            self.idle.append(slot)
            yield job, time.perf_counter() - start, slot.outcome(future)


class _Slot:
    """One process, started anew for the next job after one has failed or the code has changed.

    Each slot has a pool of its own, since a process that dies breaks its whole pool.
    """

    def __init__(self) -> None:
        self._code = ""
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, job: AnyJob, log: Path) -> Future[Outcome]:
        code = fingerprint(PACKAGE.rglob("[!.]*.py"))  # editors keep hidden files beside them
        if self._pool is None or code != self._code:
            self.close()
            self._code = code
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, initializer=_begin)
        try:
            return self._pool.submit(run_in_worker, job, log)
        except BrokenProcessPool:  # its process died after its last job
            self.close()
            return self.submit(job, log)

    def outcome(self, future: Future[Outcome]) -> Outcome:
        try:
            found = future.result()
        except BrokenProcessPool:
            found = Outcome(error="its process died; perhaps it was killed for lack of memory")
        if found.error is not None:  # after an error of CUDA, a process can compute nothing more
            self.close()
        return found

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None


def _begin() -> None:
    """Leave Ctrl-C to the parent, and end when the parent ends, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def run_in_worker(job: AnyJob, log: Path) -> Outcome:
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
    if outcome.error is None:
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
    """Redirect what the process prints to a file, including output of libraries below Python."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file, ExitStack() as redirected:
        for stream in (sys.stdout, sys.stderr):
            redirected.callback(_restore, stream, os.dup(stream.fileno()))
            os.dup2(file.fileno(), stream.fileno())
        yield


def _restore(stream: TextIO, descriptor: int) -> None:
    """Restore a stream, even if the last lines do not fit on the disk of its log."""
    try:
        stream.flush()
    finally:
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)


def _return_memory() -> None:
    """Free unused memory of the GPU, which other slots share."""
    if "torch" in sys.modules:
        import torch

        gc.collect()
        torch.cuda.empty_cache()
