"""The seconds of a training or an attack job, from a share of its work.

Of a training, steps of the first epoch are taken and of the last, in which the surrogate acts, each
with all that ends an epoch: validation, fit, selection. The slower epoch stands for all.

An attack has a share of its images for a few epochs (or iterations), and its time is taken to grow
with both. What is done once, encoding and scoring, and attacks in closed form are done in full.
They meet the study's first defence, not yet trained, which costs as much as a trained one.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from cemlib.attacks import ATTACKS
from cemlib.attacks.budget import budgeted
from cemlib.attacks.start import untrained
from cemlib.attacks.task import Outcome, Task
from cemlib.config.study import JUDGE, JUDGE_SEED, Study
from cemlib.data.prepared import Prepared, load
from cemlib.evaluation.scene import FEWEST, Scene, targets
from cemlib.evaluation.scores import verdict, write_per_image
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.precision import set_up
from cemlib.numerics.replay import WARM_UP
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.layout import KNOWLEDGES
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


EPOCHS = 3  # at first: a strong budget tries three rates, for a third of the epochs each
BATCH = 256  # images at first, without an option `batch_size`
LENGTHS = ("epochs", "iterations")  # options that say how long an attack goes on


def attack_seconds(job: SplitJob) -> float:
    """Return the seconds of one attack job, with every knowledge, from a share of it."""
    start = clock()
    data, study = read_data(job), job.plan.study
    defence, seed = job.of["defence"], job.of["seed"]
    victim = new_trainer(study, defence, seed, data).deployed
    judge = new_trainer(study, JUDGE, JUDGE_SEED, data).deployed
    judge.model.eval()
    scene = Scene(study, defence, seed, data, victim, judge)
    scene.owned(KNOWLEDGES[0])  # encodes all images, once for all attacks
    begun = clock() - start
    attacks = [part.of["attack"] for part in job.parts or (job,)]
    return begun + sum(_one_attack(scene, name, known) for name in attacks for known in KNOWLEDGES)


def _one_attack(scene: Scene, name: str, knowledge: str) -> float:
    """Return the seconds of an attack with one knowledge, and of scoring it."""
    settings = scene.study.attacks[name]
    attack, decoder = ATTACKS[settings.kind], _decoder(scene, settings.begins_with)
    with TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder) / "whole", interval=math.inf)
        task = scene.task(name, knowledge, checkpoint, decoder)
        whole = extended(attack, task, all_at_once=settings.closed_form)
        return whole + seconds_of(partial(_score, scene, name, knowledge, Path(folder)))


def _decoder(scene: Scene, attack: str | None) -> nn.Module | None:
    """Return the decoder that an attack begins with, as the other attack builds it."""
    if attack is None:
        return None
    options, shape = scene.study.attacks[attack].model_dump(), scene.victim.model.feature_shape
    network = untrained(budgeted(options), shape, scene.data.image_shape)
    return scene.decoder(attack, network.state_dict())


def extended(attack: Callable[[Task], Outcome], task: Task, *, all_at_once: bool = False) -> float:
    """Return the seconds of an attack, from ever larger parts until one takes a while."""
    key = next((name for name in LENGTHS if name in task.options), "")
    all_images, all_epochs = len(task.own.images), int(task.options.get(key, 1))
    first = all_images if all_at_once else int(task.options.get("batch_size", BATCH))
    images = min(all_images, first)
    epochs = min(all_epochs, EPOCHS)
    while True:
        part = _part(task, images / all_images, {key: epochs} if key else {})
        seconds = seconds_of(partial(_try, attack, part))
        if seconds >= ENOUGH or (images, epochs) == (all_images, all_epochs):
            return seconds * all_images * all_epochs / (images * epochs)
        if images < all_images:
            images = min(2 * images, all_images)
        else:
            epochs = min(2 * epochs, all_epochs)


def _try(attack: Callable[[Task], Outcome], task: Task) -> None:
    with suppress(DivergedError):  # so short a course may be refused; a longer one follows
        attack(task)


def _part(task: Task, share: float, options: dict[str, int]) -> Task:
    """Return a task with a share of all its images and other options, and no checkpoint yet."""
    own, held_out, released = (
        slice(max(FEWEST, math.ceil(share * len(images))))
        for images in (task.own.images, task.held_out.images, task.released)
    )
    return replace(
        task,
        own=task.own.part(own),
        held_out=task.held_out.part(held_out),
        released=task.released[released],
        options={**task.options, **options},
        checkpoint=Checkpoint(task.checkpoint.folder.with_name(f"{share}-{options}"), math.inf),
    )


def _score(scene: Scene, name: str, knowledge: str, folder: Path) -> None:
    """Score answers to all releases, and write the scores."""
    grey = torch.full_like(targets(scene.data, knowledge).images, 0.5, dtype=torch.float32)
    found = verdict(scene, name, knowledge, Outcome(grey, {}))
    write_per_image(folder / "scores", 0, scene.data.test.labels.cpu(), found.per_image)
