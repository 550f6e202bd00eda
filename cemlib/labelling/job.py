"""The job of one repeat: every number of images, from prepared data to finished folders."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from cemlib.checkpoint import Checkpoint
from cemlib.data.prepared import checksum, load
from cemlib.device import set_up
from cemlib.errors import DivergedError
from cemlib.labelling.experiment import Experiment, Found
from cemlib.labelling.participants import Participants
from cemlib.labelling.plan import LabellingPlan
from cemlib.labelling.record import Origin, write_failed, write_found
from cemlib.progress import progress

SHOWN = ("init_top1", "capc_top1", "iel_top1")


class Stages:
    """What the stages of a job have found, in this process or in one that was killed."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint, self._start = checkpoint, time.perf_counter()
        tensors, state = checkpoint.load() or ({}, {"spent": 0.0})
        self._found, self._spent = tensors, float(state["spent"])

    @property
    def seconds(self) -> float:
        """Spent on the job so far, by all its processes."""
        return self._spent + time.perf_counter() - self._start

    def __call__(self, name: str, work: Callable[[], Found]) -> Found:
        """What a stage found; it works only where no process has finished it."""
        place = f"{name}:"
        if not any(key.startswith(place) for key in self._found):
            self._found |= {place + key: tensor for key, tensor in work().items()}
            self._checkpoint.save(self._found, {"spent": self.seconds})
        found = self._found.items()
        return {key.removeprefix(place): t for key, t in found if key.startswith(place)}


def run(plan: LabellingPlan, repeat: int) -> Iterator[dict[str, Any]]:
    """Carry out one repeat; write its folders, and yield the metrics of each.

    Where a training diverges, the repeat with that number of images is finished too: its status is
    `failed`, it has no scores.

    Raises:
        DataError: if the prepared data are missing or damaged.
        ConfigError: if they are too few.
    """
    set_up(torch.device("cpu"), plan.study.threads)
    data = load(plan.layout.data)
    data_sha256 = checksum(plan.layout.data)
    checkpoint = Checkpoint(plan.repeat_checkpoint(repeat, data_sha256))
    stages, participants = Stages(checkpoint), Participants(plan.study, repeat, data)
    with progress(f"pctc repeat {repeat}", len(plan.study.images), 0) as report:
        for done, images in enumerate(plan.study.images, start=1):
            origin = Origin(plan, repeat, images, data_sha256)
            metrics = _one(origin, Experiment(participants, images, stages), stages)
            report(done, {"images": images} | {name: metrics[name] for name in SHOWN})
            yield metrics
    checkpoint.remove()


def _one(origin: Origin, experiment: Experiment, stages: Stages) -> dict[str, Any]:
    start = stages.seconds
    origin.folder.metrics.unlink(missing_ok=True)  # of an older repeat of this number
    try:
        experiment.again()
    except DivergedError as error:
        return write_failed(origin, str(error), stages.seconds - start)
    return write_found(origin, experiment, stages.seconds - start)
