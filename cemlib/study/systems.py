"""The systems that a configuration can name, each with its list of jobs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cemlib.config.errors import ConfigError, nearest
from cemlib.config.load import SPLIT, load_any
from cemlib.study import federated, labelling, split
from cemlib.study.job import AnyJob, AnyPlan
from cemlib.study.plan import Plan

SYSTEMS: dict[str, Callable[[AnyPlan], list[Any]]] = {
    SPLIT: split.jobs,
    "pctc": labelling.jobs,
    "federated": federated.jobs,
}
"""By system, the function that returns all jobs of a study."""


def jobs_of(plan: AnyPlan) -> list[AnyJob]:
    """Return all jobs of a study of any system."""
    return SYSTEMS[plan.study.system](plan)


def read_study(
    path: Path, changes: Sequence[str] = (), device: str = "auto"
) -> tuple[AnyPlan, list[AnyJob]]:
    """Read a study, with some values replaced, and all its jobs; raise ConfigError if faulty."""
    plan = Plan(load_any(path, changes), device=device)
    return plan, jobs_of(plan)


def named_jobs(jobs: Sequence[AnyJob], name: str) -> list[AnyJob]:
    """Return the jobs at or below a name, such as `train/noise`; raise ConfigError without any."""
    found = [job for job in jobs if f"{job.name}/".startswith(f"{name}/")]
    if not found:
        kinds = dict.fromkeys(job.name.partition("/")[0] for job in jobs)
        hint = nearest(name, [*kinds, *(job.name for job in jobs)])
        raise ConfigError(f"--only {name}: no such job (there are {', '.join(kinds)}){hint}")
    return found
