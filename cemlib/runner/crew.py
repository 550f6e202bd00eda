"""The processes that carry out jobs, one after the other in each: torch is imported once a slot."""

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
from types import TracebackType
from typing import Self, TextIO

from cemlib.environment import set_for_jobs
from cemlib.interrupt import exit_code, farewell, sigterm_raises
from cemlib.jobs import user_errors
from cemlib.provenance import PACKAGE, fingerprint
from cemlib.runner.graph import Job, Work


@dataclass(frozen=True)
class Outcome:
    """What became of a job: lines for people, and the error that ended it, if any."""

    notes: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Ended:
    """A job that has ended, after so many seconds."""

    job: Job
    seconds: float
    outcome: Outcome


class Crew:
    """Some slots, each with a process of its own.

    Args:
        slots: jobs at the same time.
        threads: CPU threads of each.
    """

    def __init__(self, slots: int, threads: int) -> None:
        set_for_jobs(threads)
        self._idle = [_Slot() for _ in range(slots)]
        self._busy: dict[Future[Outcome], tuple[Job, _Slot, float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes; where jobs are still running, they keep what they can resume from."""
        if self._busy:
            for process in multiprocessing.active_children():
                process.terminate()
        for slot in (*self._idle, *(slot for _, slot, _ in self._busy.values())):
            slot.close()

    @property
    def has_room(self) -> bool:
        """Whether a slot is free."""
        return bool(self._idle)

    @property
    def is_busy(self) -> bool:
        """Whether a job is running."""
        return bool(self._busy)

    def start(self, job: Job, work: Work) -> None:
        """Begin with a job in a free slot."""
        slot = self._idle.pop()
        self._busy[slot.submit(work)] = (job, slot, time.perf_counter())

    def wait(self) -> Iterator[Ended]:
        """Wait until a job ends; yields those that have, and frees their slots."""
        for future in wait(self._busy, return_when=FIRST_COMPLETED).done:
            job, slot, start = self._busy.pop(future)
            self._idle.append(slot)
            yield Ended(job, time.perf_counter() - start, slot.outcome(future))


class _Slot:
    """One process, started with its first job, and anew when it has died or the code has changed.

    A slot for itself, and not one of several in a pool: a process that dies, of too little memory
    say, takes all of its pool along.
    """

    def __init__(self) -> None:
        self._code = ""
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, work: Work) -> Future[Outcome]:
        code = fingerprint(PACKAGE.rglob("*.py"))
        if self._pool is None or code != self._code:
            self.close()
            self._code = code
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, initializer=_begin)
        return self._pool.submit(carry_out, work)

    def outcome(self, future: Future[Outcome]) -> Outcome:
        try:
            return future.result()
        except BrokenProcessPool:
            self.close()
            return Outcome(error="its process died: killed, perhaps for want of memory")

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None


def carry_out(work: Work) -> Outcome:
    """Do a job in this process, which SIGTERM ends; whatever it prints goes to its log."""
    try:
        with _printing_to(work.log), sigterm_raises():
            outcome = _interruptible(work)
    except KeyboardInterrupt as interruption:
        # The executor would take it for the job's result, and give the process the next one.
        os._exit(exit_code(interruption))
    except OSError as error:  # the job's own are in its outcome
        fault = f"{work.log}: cannot be written: {error.strerror or error}; make room, or the right"
        return Outcome(error=f"{fault} to write, then run the same command again")
    _return_memory()
    return outcome


def _interruptible(work: Work) -> Outcome:
    try:
        return _outcome(work)
    except KeyboardInterrupt as interruption:
        print(farewell(interruption), file=sys.stderr)
        raise


def _outcome(work: Work) -> Outcome:
    notes = []
    try:
        for mark in work.marks:
            mark.unlink(missing_ok=True)
        for written in work.call():
            print(written, flush=True)
            notes += [written] if isinstance(written, str) else []
    except user_errors() as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return Outcome(tuple(notes), str(error))
    except Exception as error:
        traceback.print_exc()
        return Outcome(tuple(notes), f"{type(error).__name__}: {error}")
    return Outcome(tuple(notes))


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Send what the process prints, and the libraries below Python, to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file, ExitStack() as redirected:
        for stream in (sys.stdout, sys.stderr):
            redirected.callback(_restore, stream, os.dup(stream.fileno()))
            os.dup2(file.fileno(), stream.fileno())
        yield


def _restore(stream: TextIO, descriptor: int) -> None:
    """Give a stream its place back, also where its log has no room for its last words."""
    try:
        stream.flush()
    finally:
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)


def _return_memory() -> None:
    """Give the graphics card's memory back: other slots share it."""
    if "torch" in sys.modules:
        import torch

        gc.collect()
        torch.cuda.empty_cache()


def _begin() -> None:
    """Leave Ctrl-C to the parent, and end with it however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
