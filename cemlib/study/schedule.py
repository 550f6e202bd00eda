"""The order in which jobs run, and the lines that report on them."""

import time
from collections.abc import Iterator, Sequence
from statistics import fmean

from cemlib.records.lock import locked
from cemlib.study.environment import CONTINUE
from cemlib.study.finished import finished
from cemlib.study.job import AnyJob, AnyPlan
from cemlib.study.rules import restore_times
from cemlib.study.workers import Outcome, Workers

RUNNING = (
    "is running this study with the same results; wait until it ends, or give the study another"
    " folder (`results`)"
)


class StudyError(RuntimeError):
    """Some jobs failed; the message names them, and those that were left out because of them."""


def run_study(plan: AnyPlan, jobs: Sequence[AnyJob], slots: int) -> Iterator[str]:
    """Run the unfinished ones of all jobs of a study, `slots` at a time; yield a line for each.

    Raises:
        FileError: if another runner works on the same results.
        StudyError: if some jobs failed; raised after all others have run.
    """
    start = time.perf_counter()
    root = plan.layout.root
    # The lock lies beside the results, which hold the files of the workflow alone.
    lock = locked(root.parent / ".locks" / root.name, RUNNING)
    with lock, Workers(slots, plan.study.threads) as workers:
        plan.write_config()
        restore_times(jobs)
        schedule = Schedule(jobs)
        yield from run_schedule(schedule, workers)
    if schedule.failed:
        raise StudyError(schedule.fault())
    yield f"{schedule.summary()}, {time.perf_counter() - start:.1f} s: {root}"


class Schedule:
    """Which jobs of a study wait or run, and how the others ended."""

    def __init__(self, jobs: Sequence[AnyJob]) -> None:
        self._waiting = list(jobs)
        self._running: list[AnyJob] = []
        self._total = len(jobs)
        self._logs = jobs[0].plan.layout.logs
        self._done = set[str]()
        self._seconds: dict[str, list[float]] = {}  # of jobs carried out, by kind
        self.failed: list[str] = []

    def take(self) -> AnyJob | None:
        """Take the first unfinished job that waits for no other, if there is one."""
        for job in tuple(self._waiting):
            if job.needs <= self._done:  # else it is not known yet whether it is finished
                self._waiting.remove(job)
                if not finished(job):
                    self._running.append(job)
                    return job
                self._done.add(job.name)
        return None

    def end(self, job: AnyJob, seconds: float, outcome: Outcome) -> str:
        """Record that a job has ended, and return the line that reports it."""
        self._running.remove(job)
        if outcome.error is not None:
            self.failed.append(job.name)
            return f"failed: {job.name}: {outcome.error}"
        self._seconds.setdefault(job.kind, []).append(seconds)
        self._done.add(job.name)
        line = f"{job.name}: {seconds:.1f} s"
        return "; ".join([f"[{len(self._done)}/{self._total}] {line}", *outcome.notes])

    def outlook(self, slots: int) -> str:
        """Return which jobs run and, once one of their kinds has ended, the time left."""
        if not (self._running and self._seconds):
            return ""
        names = ", ".join(job.name for job in self._running)
        found = {kind: fmean(seconds) for kind, seconds in self._seconds.items()}
        if found.keys().isdisjoint(job.kind for job in self._running):
            return f" | running: {names}"
        left = [found.get(job.kind, fmean(found.values())) for job in self._waiting + self._running]
        return f" | running: {names} | about {duration(sum(left) / slots)} left"

    def fault(self) -> str:
        """Return which jobs failed, which were skipped, and what to do."""
        left_out = ", ".join(job.name for job in self._waiting)
        lines = [f"failed: {', '.join(self.failed)}; the log of each is under {self._logs}"]
        lines += [f"not run, since they need a job that failed: {left_out}"] if left_out else []
        return "\n".join([*lines, f"the others are finished; {CONTINUE}"])

    def summary(self) -> str:
        """Return how many jobs ran, and how many were already finished."""
        ran = sum(map(len, self._seconds.values()))
        return f"{ran} jobs run, {self._total - ran} already finished"


def run_schedule(schedule: Schedule, workers: Workers) -> Iterator[str]:
    """Run the jobs of a schedule; yield a line for each that has ended."""
    told: list[str] = []
    while True:
        while workers.idle and (job := schedule.take()):
            workers.start(job, job.plan.layout.logs / f"{job.name}.log")
        yield from (line + schedule.outlook(workers.slots) for line in told)
        if not workers.busy:
            return
        told = [schedule.end(*ended) for ended in workers.wait()]


def duration(seconds: float) -> str:
    """Return a time in minutes, or hours and minutes."""
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
