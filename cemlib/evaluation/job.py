"""The attack job: every knowledge of some attacks on one finished run."""

import time
from collections.abc import Iterator

from cemlib.data.prepared import load
from cemlib.device import set_up
from cemlib.evaluation.record import Record
from cemlib.evaluation.stage import AttackJob, Stage, check_same_study
from cemlib.layout import KNOWLEDGES, AttackFolder

__all__ = ["AttackJob", "run"]


def run(job: AttackJob) -> Iterator[AttackFolder]:
    """Carry out the job's attacks, yielding each folder when it is written.

    An attack on a failed run, or one that diverges, ends as `failed` with null scores.
    """
    set_up(job.device, job.plan.study.threads)
    data = load(job.plan.layout.data).to(job.device)
    metrics = check_same_study(job.plan, job.run, job.defence)
    stage = Stage(job, data) if metrics["status"] == "ok" else None
    for attack in job.attacks:
        for knowledge in KNOWLEDGES:
            record = Record(job, data, attack, knowledge)
            _carry_out(record, stage, metrics["reason"])
            yield record.folder


def _carry_out(record: Record, stage: Stage | None, fault: str | None) -> None:
    """Attack, and write what came of it; a checkpoint goes only when that is written."""
    start = time.perf_counter()
    if stage is None:
        record.write_failed(f"the attacked run failed: {fault}", start)
        return
    found = stage.attempt(record.attack, record.knowledge)
    if isinstance(found, str):
        record.write_failed(found, start)
    else:
        record.write_found(found, stage, start)
    stage.checkpoint(record.attack, record.knowledge).remove()
