"""Carry out one repeat: every number of images, from prepared data to finished folders."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cemlib.config.labelling import LabellingStudy
from cemlib.data.prepared import checksum, load
from cemlib.labelling.experiment import Experiment, Found
from cemlib.labelling.participants import Participants
from cemlib.labelling.record import Record, write_failed, write_found
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.precision import set_up
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.progress import progress
from cemlib.study.job import Job

SHOWN = ("init_top1", "capc_top1", "iel_top1")


class Stages:
    """Keep what the stages of a job found, in this process or in one that was killed."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint, self._start = checkpoint, time.perf_counter()
        tensors, state = checkpoint.load() or ({}, {"spent": 0.0})
        self._found, self._spent = tensors, float(state["spent"])

    @property
    def seconds(self) -> float:
        """Return the seconds spent on the job so far, by all its processes."""
        return self._spent + time.perf_counter() - self._start

    def __call__(self, name: str, work: Callable[[], Found]) -> Found:
        """Return what a stage found; it works only where no process has finished it."""
        place = f"{name}:"
        if not any(key.startswith(place) for key in self._found):
            self._found |= {place + key: tensor for key, tensor in work().items()}
            self._checkpoint.save(self._found, {"spent": self.seconds})
        found = self._found.items()
        return {key.removeprefix(place): t for key, t in found if key.startswith(place)}


def run(job: Job[LabellingStudy]) -> Iterator[Path]:
    """Carry out one repeat; write its folders, and yield the record of each.

    Where a training diverges, the repeat with that number of images is finished too: its status is
    `failed`, it has no scores.

    Raises:
        DataError: if the prepared data are missing or damaged.
        ConfigError: if they are too few.
    """
    study, repeat, place = job.plan.study, job.of["repeat"], job.plan.layout.data
    set_up(job.processor(), study.threads)
    data = load(place)
    checkpoint = Checkpoint(job.checkpoint(checksum(place)))
    stages, participants = Stages(checkpoint), Participants(study, repeat, data)
    with progress(f"pctc repeat {repeat}", len(study.images), 0) as report:
        for done, images in enumerate(study.images, start=1):
            record = Record(job, images)
            metrics = _one(record, Experiment(participants, images, stages), stages)
            report(done, {"images": images} | {name: metrics[name] for name in SHOWN})
            yield record.folder.metrics
    checkpoint.remove()


def _one(record: Record, experiment: Experiment, stages: Stages) -> dict[str, Any]:
    start = stages.seconds
    record.folder.metrics.unlink(missing_ok=True)  # of an older repeat of this number
    try:
        experiment.again()
    except DivergedError as error:
        return write_failed(record, str(error), stages.seconds - start)
    return write_found(record, experiment, stages.seconds - start)
