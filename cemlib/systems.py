"""The systems that a configuration can be about: how each is read, planned and cut into jobs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cemlib import split
from cemlib.config import federated as federated_config
from cemlib.config import labelling as labelling_config
from cemlib.config.errors import ConfigError
from cemlib.config.load import SPLIT, load_as, parse
from cemlib.federated import jobs as federated
from cemlib.federated.plan import FederatedPlan
from cemlib.labelling import jobs as labelling
from cemlib.labelling.plan import LabellingPlan
from cemlib.plan import Plan
from cemlib.study.base import StudyPlan
from cemlib.study.job import Job

AnyPlan = StudyPlan[Any]


@dataclass(frozen=True)
class System:
    """Describe one system.

    Attributes:
        plan: Turns plain nested dicts into a checked plan.
        jobs: All jobs of such a plan, on a device (`auto`, `cpu` or `cuda`).
    """

    plan: Callable[[Any], AnyPlan]
    jobs: Callable[[Any, str], list[Job]]


SYSTEMS: dict[str, System] = {
    SPLIT: System(lambda raw: Plan(parse(raw)), split.jobs),
    "pctc": System(lambda raw: LabellingPlan(labelling_config.parse(raw)), labelling.jobs),
    "federated": System(lambda raw: FederatedPlan(federated_config.parse(raw)), federated.jobs),
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


def read_study(path: Path, device: str, changes: Sequence[str]) -> tuple[AnyPlan, list[Job]]:
    """Read a study of any system, with some values replaced: its plan, and all its jobs.

    Raises:
        ConfigError: if it cannot be read or is faulty.
    """
    system = SYSTEMS[load_as(path, system_of, changes)]
    plan = load_as(path, system.plan, changes)
    return plan, system.jobs(plan, device)
