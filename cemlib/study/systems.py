"""The systems that a configuration can be about: how each is read, planned and cut into jobs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cemlib.config import federated as federated_config
from cemlib.config import labelling as labelling_config
from cemlib.config.errors import ConfigError, nearest
from cemlib.config.load import SPLIT, load_as, parse
from cemlib.study import federated, labelling, split
from cemlib.study.job import AnyJob, AnyPlan
from cemlib.study.plan import Plan


@dataclass(frozen=True)
class System:
    """Describe one system.

    Attributes:
        parse: Turns plain nested dicts into a checked study.
        jobs: All jobs of such a study, on a device (`auto`, `cpu` or `cuda`).
    """

    parse: Callable[[Any], Any]
    jobs: Callable[[AnyPlan, str], list[Any]]

    def plan(self, raw: Any) -> AnyPlan:
        """Turn plain nested dicts into a checked study with its place."""
        return Plan(self.parse(raw))


SYSTEMS: dict[str, System] = {
    SPLIT: System(parse, split.jobs),
    "pctc": System(labelling_config.parse, labelling.jobs),
    "federated": System(federated_config.parse, federated.jobs),
}


def system_of(raw: Any) -> str:
    """Return which system a configuration is about; a study of split inference need not say so.

    Raises:
        ConfigError: if there is no such system.
    """
    found = raw.get("system", SPLIT) if isinstance(raw, Mapping) else SPLIT
    if found not in SYSTEMS:
        raise ConfigError(f"system: {found!r} is not one of {', '.join(SYSTEMS)}")
    return str(found)


def read_study(
    path: Path, changes: Sequence[str] = (), device: str = "auto"
) -> tuple[AnyPlan, list[AnyJob]]:
    """Read a study of any system, with some values replaced, and all its jobs.

    Raises:
        ConfigError: if it cannot be read or is faulty.
    """
    system = SYSTEMS[load_as(path, system_of, changes)]
    plan = load_as(path, system.plan, changes)
    return plan, system.jobs(plan, device)


def named_jobs(jobs: Sequence[AnyJob], name: str) -> list[AnyJob]:
    """Return the job of a name, or all jobs whose names begin with it, such as `train/noise`.

    Raises:
        ConfigError: if there is none; it names the nearest.
    """
    found = [job for job in jobs if f"{job.name}/".startswith(f"{name}/")]
    if not found:
        kinds = dict.fromkeys(job.name.partition("/")[0] for job in jobs)
        hint = nearest(name, [*kinds, *(job.name for job in jobs)])
        raise ConfigError(f"--only {name}: no such job (there are {', '.join(kinds)}){hint}")
    return found
