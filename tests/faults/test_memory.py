"""Memory does not grow with the number of trainings and attacks in one process."""

import gc
import resource
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from short_study import STUDY

from cemlib.config import parse
from cemlib.config.study import JUDGE
from cemlib.evaluation.job import AttackJob
from cemlib.evaluation.job import run as attack
from cemlib.jobs import prepare
from cemlib.plan import JUDGE_SEED, Plan
from cemlib.training.job import TrainJob
from cemlib.training.job import run as train

CPU = torch.device("cpu")
PAGE = resource.getpagesize()
MIB = 2**20
ALLOWED = 2 * MIB  # of growth; measured were .03 per five runs and attacks


def resident() -> int:
    """Bytes of this process that are in memory now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def once(plan: Plan, attacks: Sequence[str]) -> None:
    train(TrainJob(plan, "clustering", 0, CPU))
    assert len(list(attack(AttackJob(plan, "clustering", 0, attacks, CPU)))) == 2 * len(attacks)


@pytest.mark.parametrize(
    ("warm", "more", "attacks"),
    [(8, 12, ["linear"]), pytest.param(50, 150, ["decoder", "linear"], marks=pytest.mark.slow)],
)
def test_runs_in_one_process_do_not_grow(
    tmp_path: Path, warm: int, more: int, attacks: list[str]
) -> None:
    """As `cemlib run` does in each of its slots: a run, attacked, again and again."""
    plan = Plan(parse(STUDY | {"results": str(tmp_path)}))
    list(prepare(plan))
    train(TrainJob(plan, JUDGE, JUDGE_SEED, CPU))
    for _ in range(warm):
        once(plan, attacks)
    before = resident()
    for _ in range(more):
        once(plan, attacks)
    assert resident() - before < ALLOWED, f"{(resident() - before) / MIB:.1f} MiB more"
