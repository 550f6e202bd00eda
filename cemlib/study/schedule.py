"""Which job runs next, and what is said of it."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from cemlib.records.layout import Layout
from cemlib.study.crew import Crew, Ended
from cemlib.study.finished import finished
from cemlib.study.job import AnyJob
from cemlib.study.lock import locked
from cemlib.study.plan import Plan


class StudyError(RuntimeError):
    """Some jobs failed; the message names them, and those that were left out for it."""


def run_study(plan: Plan[Any], jobs: Sequence[AnyJob], slots: int) -> Iterator[str]:
    """Carry out those of a study's jobs that are not finished, and say which have ended.

    Args:
        plan: The study.
        jobs: All its jobs, each after those it needs.
        slots: Jobs at the same time.

    Raises:
        FileError: at once, if another runner works on the same results.
        StudyError: after all jobs that could be done, if some failed.
    """
    start = time.perf_counter()
    with locked(_lock(plan.layout)), Crew(slots, plan.study.threads) as crew:
        plan.write_config()
        schedule = Schedule(jobs)
        yield from carry_out(schedule, crew, plan.layout)
    if schedule.failed:
        raise StudyError(schedule.fault())
    yield f"{schedule.summary()}, {time.perf_counter() - start:.1f} s: {plan.layout.root}"


class Schedule:
    """The jobs that wait or run, and what became of the others."""

    def __init__(self, jobs: Sequence[AnyJob]) -> None:
        self._waiting = list(jobs)
        self._running: list[AnyJob] = []
        self._total = len(jobs)
        self._done = set[str]()
        self._seconds: dict[str, list[float]] = {}  # of jobs carried out, by kind
        self.failed: list[str] = []

    def take(self) -> AnyJob | None:
        """Take the first job that is to be done and waits for no other, if there is one.

        Only when all that a job needs is finished can its files be compared with what they read.
        """
        for job in tuple(self._waiting):
            if job.needs <= self._done:
                self._waiting.remove(job)
                if not finished(job):
                    self._running.append(job)
                    return job
                self._done.add(job.name)
        return None

    def end(self, ended: Ended) -> str:
        """Note that a job has ended; returns the line that says so."""
        name, outcome = ended.job.name, ended.outcome
        self._running.remove(ended.job)
        if outcome.error is not None:
            self.failed.append(name)
            return f"failed: {name}: {outcome.error}"
        self._seconds.setdefault(ended.job.kind, []).append(ended.seconds)
        self._done.add(name)
        line = f"{name}: {ended.seconds:.1f} s"
        return "; ".join([f"[{len(self._done)}/{self._total}] {line}", *outcome.notes])

    def outlook(self, slots: int) -> str:
        """Return which jobs run, and about how long what is left takes with so many slots."""
        if not (self._running and self._seconds):
            return ""
        found = {kind: fmean(seconds) for kind, seconds in self._seconds.items()}
        left = [found.get(job.kind, fmean(found.values())) for job in self._waiting + self._running]
        names = ", ".join(job.name for job in self._running)
        return f" | running: {names} | about {duration(sum(left) / slots)} left"

    def fault(self) -> str:
        """Return which jobs failed, which were left out, and what to do."""
        left_out = ", ".join(job.name for job in self._waiting)
        lines = [f"failed: {', '.join(self.failed)}; the log of each is under logs/"]
        lines += [f"left out, since they need what failed: {left_out}"] if left_out else []
        return "\n".join([*lines, "the others are finished; run the same command again to go on"])

    def summary(self) -> str:
        """Return how many jobs there were."""
        carried_out = sum(map(len, self._seconds.values()))
        before = self._total - carried_out
        return f"{carried_out} jobs carried out, {before} were finished before"


def carry_out(schedule: Schedule, crew: Crew, layout: Layout) -> Iterator[str]:
    """Carry out the jobs of a schedule; yields a line for each that has ended."""
    told: list[str] = []
    while True:
        while crew.has_room and (job := schedule.take()):
            crew.start(job, layout.root / "logs" / f"{job.name}.log")
        yield from (line + schedule.outlook(crew.slots) for line in told)
        if not crew.is_busy:
            return
        told = [schedule.end(ended) for ended in crew.wait()]


def duration(seconds: float) -> str:
    """Return a time in minutes, or hours and minutes."""
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _lock(layout: Layout) -> Path:
    """Return the lock: beside the results, for a finished study has the workflow's files alone."""
    return layout.root.parent / ".locks" / layout.root.name
