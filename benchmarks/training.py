"""Time training steps and an epoch of ours beside the field's loop, and several trainings at once.

Both sides pass over the same few batches of images in memory, with the same number of threads. The
start and the end of a pass count towards its steps.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from typing import ClassVar

import torch
from joblib import cpu_count
from torch.nn import functional as F
from torch.utils.benchmark import Measurement

from benchmarks.measure import Call, Row, best_precision, compare, flops, measured, rate, row
from benchmarks.plain import PlainLoop
from benchmarks.setting import CLASSES, SURROGATES, Scale, prepared, split_model, study
from cemlib.data.prepared import Prepared
from cemlib.numerics.precision import set_up
from cemlib.training.job import new_trainer
from cemlib.training.trainer import Trainer

EPOCH = 6  # every surrogate acts in it, and the learning rate is still the first
DEFENCES = ("noise", *SURROGATES)
PLAIN = ("noise", "clustering")  # what the field's loop can train


def training(scale: Scale) -> Iterator[Row]:
    """Time a step of each of `DEFENCES`, an epoch, and as many trainings at once as cores."""
    operations = step_flops(scale)
    for name in DEFENCES:
        yield compare(
            f"step, {name}",
            warm_pass(scale, name),
            scale,
            reference=plain_loop(scale, name).pass_over if name in PLAIN else None,
            operations=operations,
            precision=best_precision(scale),
            images=scale.batch,
            count=scale.steps,
        )
    yield epoch(scale)
    yield several(scale, operations)


def epoch(scale: Scale) -> Row:
    """Time an epoch with its validation and second pass, per training image."""
    ours, plain = trainer(scale, "clustering"), plain_loop(scale, "clustering")
    return compare(
        "epoch, clustering, per image",
        lambda: ours.epoch(EPOCH),
        scale,
        reference=plain.epoch,
        images=1,
        count=scale.steps * scale.batch,
    )


def several(scale: Scale, operations: float) -> Row:
    """Time one-thread processes side by side; the reference is one plain loop on all cores."""
    cores = cpu_count()
    context = get_context("spawn")  # a fork would inherit torch's threads half alive
    together = context.Barrier(cores, timeout=300.0)  # seconds, in case a process fails
    with ProcessPoolExecutor(cores, context, _begin, (together,)) as pool:
        alone = list(pool.map(_train, [replace(scale, threads=1)] * cores))
    times = [time for each in alone for time in each.times]
    whole = replace(scale, threads=cores)
    (plain,) = measured([plain_loop(whole, "clustering").pass_over], whole)
    return row(
        f"step, clustering, {cores} processes of ours together",
        Measurement(cores, times, alone[0].task_spec),  # that many steps in the time of one
        plain,
        floor=operations / rate(whole, best_precision(scale)),
        images=scale.batch,
        count=scale.steps,
    )


def warm_pass(scale: Scale, defence: str) -> Call:
    """Return a pass over the training steps of an epoch, after a whole epoch as warm-up."""
    warm = trainer(scale, defence)
    warm.epoch(EPOCH)
    return lambda: warm.pass_over(EPOCH)


def trainer(scale: Scale, defence: str) -> Trainer:
    """Return a training at its start, on the scale's device and threads."""
    set_up(torch.device(scale.device), scale.threads)
    return new_trainer(study(scale), defence, 0, _data(scale).to(scale.device))


def plain_loop(scale: Scale, defence: str) -> PlainLoop:
    """Return the field's training after an epoch, so that it has clusters."""
    loop = PlainLoop(_data(scale), scale, clustered=defence == "clustering")
    loop.epoch()
    return loop


def step_flops(scale: Scale) -> float:
    """Return the operations of the network's forward and backward pass on a batch."""
    with torch.device("meta"):  # shapes alone tell
        model, images = split_model(scale), torch.empty(scale.batch, *scale.image_shape)
        labels = torch.zeros(scale.batch, dtype=torch.long)
    return flops(lambda: F.cross_entropy(model(images), labels).backward())  # type: ignore[no-untyped-call]


def _data(scale: Scale) -> Prepared:
    """Return the images of one pass, and a tenth as many to score."""
    count = scale.steps * scale.batch
    return prepared(count, max(CLASSES, count // 10), scale)


class _Process:
    """The state of one of the processes that run together."""

    together: ClassVar[Barrier]


def _begin(together: Barrier) -> None:
    _Process.together = together


def _train(scale: Scale) -> Measurement:
    """Time the steps of one process among several, once all of them are warm."""
    warm = warm_pass(scale, "clustering")
    _Process.together.wait()
    return measured([warm], scale)[0]
