"""The attack job: every knowledge of some attacks on one finished run."""

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from cemlib.config.study import Study
from cemlib.data.prepared import load
from cemlib.evaluation.record import Record
from cemlib.evaluation.stage import Stage, attacked_run
from cemlib.numerics.precision import set_up
from cemlib.records.layout import KNOWLEDGES
from cemlib.records.seal import read_sealed
from cemlib.study.job import Job


def run(job: Job[Study]) -> Iterator[Path]:
    """Carry out the job's attacks, and yield each record's path.

    An attack on a failed run, or one that diverges, ends as `failed` with null scores. Checkpoints
    go when all is written: a killed job trains no decoder twice, whichever it had come to.
    """
    device = job.processor()
    set_up(device, job.plan.study.threads)
    data = load(job.plan.layout.data).to(device)
    metrics = read_sealed(attacked_run(job).metrics, ("status", "reason"))
    stage = Stage(job, data) if metrics["status"] == "ok" else None
    pairs = list(product(job.parts or (job,), KNOWLEDGES))
    for part, knowledge in pairs:
        record = Record(part, data, knowledge)
        _carry_out(record, stage, metrics["reason"])
        yield record.folder.metrics
    if stage is not None:
        for part, knowledge in pairs:
            stage.checkpoint(part, knowledge).remove()


def _carry_out(record: Record, stage: Stage | None, fault: str | None) -> None:
    """Attack, and write what came of it."""
    start = time.perf_counter()
    if stage is None:
        record.write_failed(f"the attacked run failed: {fault}", start)
        return
    found = stage.attempt(record.job, record.knowledge)
    if isinstance(found, str):
        record.write_failed(found, start)
    else:
        record.write_found(found, stage, start)
