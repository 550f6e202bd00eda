"""Carrying out the runs of a search: those that are not finished, in processes of their own.

What is finished on disk is taken as it is, and a training that was killed goes on from its last
checkpoint. So a search that was killed and is called again comes to the same end.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from cemlib.config.study import Study
from cemlib.records.seal import read_sealed
from cemlib.search.validation import measure_job
from cemlib.study.crew import Crew
from cemlib.study.job import Job, prepare_job
from cemlib.study.plan import Plan
from cemlib.study.schedule import Schedule, StudyError, carry_out
from cemlib.study.split import train_job


@dataclass(frozen=True)
class Score:
    """Hold what a setting is worth over the seeds.

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
        """Return the mean in %; NaN if any seed failed: what may diverge counts as the worst."""
        return math.nan if self.failed else fmean(self.accuracies)

    @property
    def mse(self) -> float:
        """Return the mean error; NaN likewise."""
        return math.nan if self.failed else fmean(self.errors)

    @property
    def standard_error(self) -> float:
        """Return that of the mean accuracy, in points; NaN of a single seed."""
        count = len(self.accuracies)
        return stdev(self.accuracies) / math.sqrt(count) if count > 1 else math.nan


def scored(plan: Plan[Study], crew: Crew, device: str, say: Callable[[str], None]) -> Score:
    """Train and measure the one defence of a search's study with all its seeds.

    Args:
        plan: The study.
        crew: The processes.
        device: `auto`, `cpu` or `cuda`.
        say: Called with a line when a run has ended.

    Raises:
        StudyError: if a job failed; a training that diverged did not, its score says so.
    """
    plan.write_config()
    (defence,) = plan.study.defences
    runs = [(defence, seed, device) for seed in plan.study.seeds]
    measured = [measure_job(plan, *run) for run in runs]
    pairs = zip((train_job(plan, *run) for run in runs), measured, strict=True)
    schedule = Schedule([prepare_job(plan), *(job for pair in pairs for job in pair)])
    for line in carry_out(schedule, crew, plan.layout):
        say(f"{plan.study.experiment} {line}")
    if schedule.failed:
        raise StudyError(f"{plan.layout.root}: {schedule.fault()}")
    return _score(measured)


def _score(jobs: Sequence[Job[Study]]) -> Score:
    """Return what the records of one setting say, with each of the seeds."""
    keys = ("status", "reason", "val_top1", "val_mse", "wall_seconds")
    found = [read_sealed(record, keys) for job in jobs for record in job.records]
    ended = [one for one in found if one["status"] == "ok"]
    return Score(
        accuracies=tuple(100 * one["val_top1"] for one in ended),
        errors=tuple(one["val_mse"] for one in ended),
        failed=tuple(str(one["reason"]) for one in found if one["status"] != "ok"),
        seconds=sum(one["wall_seconds"] for one in found),
    )
