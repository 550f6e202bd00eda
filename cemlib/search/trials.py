"""Carrying out the runs of a search: those that are not finished, in processes of their own.

What is finished on disk is taken as it is, and a training that was killed goes on from its last
checkpoint. So a search that was killed and is called again comes to the same end.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, stdev

from cemlib.plan import Plan
from cemlib.seal import read_sealed
from cemlib.search.validation import is_measured, measure, record_path
from cemlib.split import training
from cemlib.study.crew import Crew
from cemlib.study.finished import finished
from cemlib.study.job import Job
from cemlib.study.process import find_device
from cemlib.study.schedule import Schedule, StudyError, carry_out


@dataclass(frozen=True)
class Score:
    """What a setting is worth over the seeds.

    Attributes:
        accuracies: On validation images in %, one for each seed that ended.
        errors: MSE of the attack likewise.
        failed: Why the other seeds failed.
        seconds: Of all its trainings and attacks.
    """

    accuracies: tuple[float, ...]
    errors: tuple[float, ...]
    failed: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def accuracy(self) -> float:
        """Mean in %, and NaN if any seed failed, since what may diverge counts as the worst."""
        return math.nan if self.failed else fmean(self.accuracies)

    @property
    def mse(self) -> float:
        """Mean; NaN likewise."""
        return math.nan if self.failed else fmean(self.errors)

    @property
    def standard_error(self) -> float:
        """Of the mean accuracy, over the seeds, in points; NaN of a single seed."""
        count = len(self.accuracies)
        return stdev(self.accuracies) / math.sqrt(count) if count > 1 else math.nan


@dataclass(frozen=True)
class Trials:
    """Where runs are carried out, and who is told.

    Attributes:
        crew: The processes.
        device: `auto`, `cpu` or `cuda`.
        say: Called with a line when a run has ended.
    """

    crew: Crew
    device: str
    say: Callable[[str], None]

    def scores(self, plan: Plan, defences: Sequence[str]) -> dict[str, Score]:
        """Train and measure some defences of a search's study with all its seeds.

        Raises:
            StudyError: if a job failed; a training that diverged did not, its score says so.
        """
        plan.write_config()
        runs = product(defences, plan.study.seeds)
        left = [run for run in runs if not _is_done(plan, *run)]
        schedule = Schedule([_job(plan, *run, self.device) for run in left])
        for line in carry_out(schedule, self.crew, plan.layout):
            self.say(f"{plan.study.experiment} {line}")
        if schedule.failed:
            raise StudyError(f"{plan.layout.root}: {schedule.fault()}")
        return {defence: _score(plan, defence) for defence in defences}


def attempt(plan: Plan, defence: str, seed: int, device: str) -> Iterator[Path | str]:
    """Train a run, unless it is finished, and measure it."""
    job = training(plan, defence, seed, device)
    if not finished(job):
        yield from job.call()
    yield measure(plan, defence, seed, find_device(device))


def _is_done(plan: Plan, defence: str, seed: int) -> bool:
    return finished(training(plan, defence, seed)) and is_measured(plan, defence, seed)


def _job(plan: Plan, defence: str, seed: int, device: str) -> Job:
    """Return the job of a run and its score; it leaves nothing by which it could be finished."""
    call = partial(attempt, plan, defence, seed, device)
    job = training(plan, defence, seed, device)
    return replace(job, needs=frozenset(), outputs=(), call=call)


def _score(plan: Plan, defence: str) -> Score:
    keys = ("status", "reason", "val_top1", "val_mse", "wall_seconds")
    seeds = plan.study.seeds
    found = [read_sealed(record_path(plan, defence, seed), keys) for seed in seeds]
    ended = [one for one in found if one["status"] == "ok"]
    return Score(
        accuracies=tuple(100 * one["val_top1"] for one in ended),
        errors=tuple(one["val_mse"] for one in ended),
        failed=tuple(str(one["reason"]) for one in found if one["status"] != "ok"),
        seconds=sum(one["wall_seconds"] for one in found),
    )
