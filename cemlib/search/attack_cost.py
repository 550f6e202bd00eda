"""The seconds of an attack job, from a share of its work.

An attack has a share of its images for a few epochs (or iterations), and its time is taken to grow
with both. What is done once, encoding and scoring, and attacks in closed form are done in full.
They meet the study's first defence, not yet trained, which costs as much as a trained one.
"""

import math
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
from cemlib.config.study import JUDGE, JUDGE_SEED
from cemlib.evaluation.scene import FEWEST, Scene, targets
from cemlib.evaluation.scores import write_per_image
from cemlib.evaluation.verdict import verdict
from cemlib.numerics.divergence import DivergedError
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.layout import KNOWLEDGES
from cemlib.search.training_cost import ENOUGH, clock, new_trainer, read_data, seconds_of
from cemlib.study.split import SplitJob

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
