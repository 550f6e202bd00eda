"""Carry out one repeat with every number of images, from prepared data to finished folders."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cemlib.config.labelling import LabellingStudy
from cemlib.data.prepared import checksum, load
from cemlib.labelling.experiment import carry_out
from cemlib.labelling.participants import Found, Participants
from cemlib.labelling.record import write_repeat
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.precision import set_up
from cemlib.records.checkpoint import Checkpoint, pack, unpack
from cemlib.records.progress import progress
from cemlib.study.job import Job

SHOWN = ("init_top1", "capc_top1", "iel_top1")


class Stages:
    """The results of a job's stages, kept in its checkpoint so that no stage is computed twice."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint, self._start = checkpoint, time.perf_counter()
        self._found, state = checkpoint.load() or ({}, {"spent": 0.0})
        self._spent = float(state["spent"])

    @property
    def seconds(self) -> float:
        """Return the seconds spent on the job so far, by all its processes."""
        return self._spent + time.perf_counter() - self._start

    def __call__(self, name: str, work: Callable[[], Found]) -> Found:
        """Return the result of a stage; do its work only if no earlier process has finished it."""
        found = unpack(name, self._found)
        if not found:
            found = work()
            self._found |= pack(name, found)
            self._checkpoint.save(self._found, {"spent": self.seconds})
        return found


def run(job: Job[LabellingStudy]) -> Iterator[Path]:
    """Carry out one repeat: write its folders, and yield the path of each one's record.

    If a training diverges, the repeat with that number of images counts as finished too: its status
    is `failed`, and it has no scores.

    Raises:
        FileError: if the prepared data are missing or damaged.
        ConfigError: if there are too few images, or the noise does not fit the masks.
    """
    study, repeat, place = job.plan.study, job.of["repeat"], job.plan.layout.data
    set_up(job.processor(), study.threads)
    participants = Participants(study, repeat, load(place))
    checkpoint = Checkpoint(job.checkpoint(checksum(place)))
    stages = Stages(checkpoint)
    report = progress(f"pctc repeat {repeat}", len(study.images), unit="part")
    for done, images in enumerate(study.images, start=1):
        start, path = stages.seconds, job.plan.layout.repeat(images, repeat).metrics
        path.unlink(missing_ok=True)  # of an older repeat of this number
        outcome, reason = None, None
        try:
            outcome = carry_out(participants, images, stages)
        except DivergedError as error:
            reason = str(error)
        metrics = write_repeat(job, images, outcome, reason, stages.seconds - start)
        report(done, {"images": images} | {name: metrics[name] for name in SHOWN})
        yield path
    checkpoint.remove()
