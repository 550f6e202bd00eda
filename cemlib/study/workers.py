"""The processes that run jobs, one after the other in each, so that each imports torch once."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cemlib.records.provenance import PACKAGE, fingerprint
from cemlib.study.environment import set_for_jobs
from cemlib.study.job import AnyJob
from cemlib.study.process import Outcome, carry_out


@dataclass(frozen=True)
class Ended:
    """A job that has ended, and the seconds that it took."""

    job: AnyJob
    seconds: float
    outcome: Outcome


class Workers:
    """Slots for jobs at the same time, each with a process of its own and some CPU threads."""

    def __init__(self, slots: int, threads: int) -> None:
        set_for_jobs(threads)
        self.slots = slots
        self._idle = [_Slot() for _ in range(slots)]
        self._all = list(self._idle)
        self._busy: dict[Future[Outcome], tuple[AnyJob, _Slot, float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the processes; jobs that are still running keep their checkpoints."""
        if self._busy or kind is not None:
            for process in multiprocessing.active_children():
                process.terminate()
        for slot in self._all:  # after Ctrl-C one may be neither idle nor busy
            slot.close()

    @property
    def has_room(self) -> bool:
        """Return whether a slot is free."""
        return bool(self._idle)

    @property
    def is_busy(self) -> bool:
        """Return whether a job is running."""
        return bool(self._busy)

    def start(self, job: AnyJob, log: Path) -> None:
        """Start a job in a free slot; what it prints goes to the file `log`."""
        slot = self._idle.pop()
        self._busy[slot.submit(job, log)] = (job, slot, time.perf_counter())

    def wait(self) -> Iterator[Ended]:
        """Wait until a job ends; yields those that have ended, and frees their slots."""
        for future in wait(self._busy, return_when=FIRST_COMPLETED).done:
            job, slot, start = self._busy.pop(future)
            self._idle.append(slot)
            yield Ended(job, time.perf_counter() - start, slot.outcome(future))


class _Slot:
    """One process, started with its first job, and again when it has died or the code has changed.

    Each slot has a pool of its own, since a process that dies breaks its whole pool.
    """

    def __init__(self) -> None:
        self._code = ""
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, job: AnyJob, log: Path) -> Future[Outcome]:
        code = fingerprint(PACKAGE.rglob("*.py"))
        if self._pool is None or code != self._code:
            self.close()
            self._code = code
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, initializer=_begin)
        return self._pool.submit(carry_out, job, log)

    def outcome(self, future: Future[Outcome]) -> Outcome:
        try:
            return future.result()
        except BrokenProcessPool:
            self.close()
            return Outcome(error="its process died: killed, perhaps for lack of memory")

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None


def _begin() -> None:
    """Leave Ctrl-C to the parent, and end when the parent ends in whatever way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
