"""Megabytes that Snakemake asks a cluster for, job by job."""

import math
from collections.abc import Callable
from functools import cached_property

from cemlib.plan import Plan

LEAST = 1_500  # of a process that imports torch
MARGIN = 1.4  # what was measured lies within 30 % of the estimate, and a job over it is ended


class Megabytes:
    """What jobs ask for: today's constants here, the estimate where others hold them to it.

    Args:
        plan: the study.
        estimated: whether to rehearse the jobs, which imports torch, once and when first asked;
            asked with the first job, since Snakemake chooses its executor after reading the rules.
    """

    def __init__(self, plan: Plan, estimated: Callable[[], bool]) -> None:
        self._plan, self._estimated = plan, estimated

    def __call__(self, kind: str, of: str, otherwise: int) -> int:
        """Megabytes of one job: `kind` and `of` as in `cemlib.memory.estimate.Row`."""
        if not self._estimated():
            return otherwise
        return max(LEAST, math.ceil(MARGIN * self._hosts[kind, of] / 1e6))

    @cached_property
    def _hosts(self) -> dict[tuple[str, str], int]:
        from cemlib.memory.estimate import estimate

        return {(row.kind, row.of): row.host for row in estimate(self._plan, "cpu").rows}
