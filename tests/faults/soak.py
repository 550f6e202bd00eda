"""Trainings and attacks, again and again in this process; prints by how many bytes it grew."""

import gc
import sys
from collections.abc import Sequence
from pathlib import Path

from short_study import STUDY

from cemlib.config import parse
from cemlib.config.study import JUDGE, JUDGE_SEED
from cemlib.evaluation.job import run as attack
from cemlib.study.job import prepare_job
from cemlib.study.plan import Plan
from cemlib.study.running import rerun_job
from cemlib.study.split import attack_job, train_job
from cemlib.training.job import run as train


def resident() -> int:
    """Return the bytes that this process holds in memory beside files.

    Pages of files, of the libraries above all, come and go as the machine has room for them.
    """
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024


def once(plan: Plan, attacks: Sequence[str]) -> None:
    train(train_job(plan, "clustering", 0))
    gc.collect()  # as the runner does after each job
    assert len(list(attack(attack_job(plan, "clustering", 0, attacks)))) == 2 * len(attacks)
    gc.collect()


def growth(results: str, warm: int, more: int, attacks: Sequence[str]) -> int:
    """Bytes by which `more` runs make the process grow, after `warm` runs filled its caches."""
    plan = Plan(parse(STUDY | {"results": results}), device="cpu")
    list(rerun_job(prepare_job(plan)))
    train(train_job(plan, JUDGE, JUDGE_SEED))
    for _ in range(warm):
        once(plan, attacks)
    before = resident()
    for _ in range(more):
        once(plan, attacks)
    return resident() - before


if __name__ == "__main__":
    results, warm, more, *attacks = sys.argv[1:]
    print(growth(results, int(warm), int(more), attacks))
