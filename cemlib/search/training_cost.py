"""The seconds of a training, from a few of its steps.

Steps of the first epoch are taken and of the last, in which the surrogate acts, each with all that
ends an epoch: validation, fit, selection. The slower epoch stands for all.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import torch

from cemlib.config.study import Study
from cemlib.data.prepared import Prepared, load
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.precision import set_up
from cemlib.numerics.replay import WARM_UP
from cemlib.study.split import SplitJob
from cemlib.training.scores import scores
from cemlib.training.setup import Setup
from cemlib.training.step import Pace, Step
from cemlib.training.trainer import Trainer

ENOUGH = 2.0  # seconds of measured work
STEPS = 10  # measured at most in an epoch


def train_seconds(job: SplitJob) -> float:
    """Return the seconds of one training, from a few steps of it."""
    start = clock()
    data = read_data(job)
    trainer = new_trainer(job.plan.study, job.of["defence"], job.of["seed"], data)
    begun, last = clock() - start, trainer.settings.epochs
    slower = 0.0
    with suppress(DivergedError):  # as its job would end here
        for number in sorted({1, last}):
            slower = max(slower, _epoch_seconds(trainer, number))
        return begun + last * slower + seconds_of(lambda: scores(trainer))
    return begun + last * slower


def read_data(job: SplitJob) -> Prepared:
    """Return a job's prepared data on its device, for which the process is set up."""
    place = job.processor()
    set_up(place, job.plan.study.threads)
    return load(job.plan.layout.data).to(place)


def new_trainer(study: Study, defence: str, seed: int, data: Prepared) -> Trainer:
    """Return the trainer of one run, as its job builds it."""
    setup = Setup(study, defence, seed)
    return setup.trainer(data, setup.network(data))


def _epoch_seconds(trainer: Trainer, number: int) -> float:
    """Return the seconds of an epoch of which only a few steps are taken."""
    trainer.prune_before(number)  # which would put new steps in the place of these
    trainer.step = steps = FewSteps(trainer)
    seconds = seconds_of(lambda: trainer.epoch(number))
    return seconds - sum(steps.seconds) + len(trainer.batches.sizes) * steps.each


class FewSteps(Step):
    """Take and time the first few steps of a trainer, and leave the others out."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(trainer.defended, trainer.batches, trainer.settings, trainer.seed)
        self.seconds: list[float] = []
        self._warm_up = 1 if self.device.type == "cpu" else WARM_UP + 1
        self._rows = 0

    @property
    def each(self) -> float:
        """Return the seconds of a step after the first ones, which also make what others use."""
        later = self.seconds[self._warm_up :] or self.seconds[-1:]
        return sum(later) / len(later)

    def __call__(self, size: int, pace: Pace) -> None:
        """Train on a batch of that size, or leave it out."""
        later = self.seconds[self._warm_up :]
        if len(later) >= STEPS or sum(later) >= ENOUGH:
            self._leave_out(size)
        else:
            self.seconds.append(seconds_of(partial(super().__call__, size, pace)))
        self._rows += size

    def _leave_out(self, size: int) -> None:
        """Let rows that are there stand for those of a step left out: a fit reads them."""
        for rows in self.seen or ():
            rows[self._rows : self._rows + size] = rows[:size]


def seconds_of(work: Callable[[], object]) -> float:
    """Do some work and return the seconds that it took."""
    start = clock()
    work()
    return clock() - start


def clock() -> float:
    """Read the clock when the graphics card has done what it was told."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    return time.perf_counter()
