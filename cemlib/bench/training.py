"""The training step and the epoch, against the field's loop and the arithmetic floor.

Both sides pass in turns over the same few batches of images held in memory, with as many threads;
what starts or ends a pass belongs to its steps.
"""

from itertools import count
from typing import Any

import torch

from cemlib.bench.concurrent import concurrent
from cemlib.bench.floor import floor_ms
from cemlib.bench.ours import FIRST, data, step_flops, trainer, warm_steps, with_images
from cemlib.bench.reference import PlainLoop
from cemlib.bench.scale import Scale
from cemlib.bench.subject import DEFENCES, split_model
from cemlib.bench.timing import Work, alternately, compared, side_by_side
from cemlib.precision import resolve

PLAIN = ("noise", "clustering")  # what the reference can train
AGAINST = "plain float32 eager loop with a DataLoader"
NONE_KNOWN = "the field's loop has no such surrogate"


def training(scale: Scale) -> dict[str, Any]:
    """Steps of every defence, the epoch of a defended one, and several processes at once."""
    found = {
        "precision": resolve("auto", torch.device(scale.device)),
        "threads": scale.threads,
        "workers_of_the_reference": scale.workers,
        "steps": {name: _step(scale, name) for name in DEFENCES},
        "epoch": _epoch(scale),
        "concurrent": concurrent(scale, lambda threads: _plain_steps(scale, "clustering", threads)),
    }
    torch.set_num_threads(scale.threads)
    return found


def _step(scale: Scale, defence: str) -> dict[str, Any]:
    work, images = warm_steps(scale, defence), scale.batch
    plain = _plain_steps(scale, defence, scale.threads) if defence in PLAIN else None
    ours, reference = side_by_side(work, plain, scale.passes, scale.device, warm_up=False)
    precision, operations = resolve("auto", torch.device(scale.device)), step_flops(scale)
    found = compared(
        with_images(ours, images),
        with_images(reference, images) if reference else None,
        AGAINST if reference else NONE_KNOWN,
        floor_ms(operations, scale.device, scale.threads, precision),
    )
    return found | {"flops": operations}


def _epoch(scale: Scale) -> dict[str, Any]:
    """An epoch with clustering, its validation and second pass included, per training image."""
    ours, numbers = trainer(scale, "clustering"), count(FIRST)
    plain = _loop(scale, "clustering", scale.threads)
    images = scale.steps * scale.batch
    works = [Work(lambda: ours.epoch(next(numbers)), images), Work(plain.epoch, images)]
    sides = [
        with_images(timing, 1) | {"epoch_seconds": timing["milliseconds"] / 1e3 * scale.samples}
        for timing in alternately(works, scale.passes, scale.device)
    ]
    return compared(sides[0], sides[1], AGAINST)


def _plain_steps(scale: Scale, defence: str, threads: int) -> Work:
    """A pass of the reference over its steps, after a whole epoch."""
    loop = _loop(scale, defence, threads)
    loop.epoch()
    return Work(loop.pass_over, scale.steps)


def _loop(scale: Scale, defence: str, threads: int) -> PlainLoop:
    torch.set_num_threads(threads)
    if scale.device == "cuda":  # torch's default, and so the field's; `set_up` turns it off
        torch.backends.cudnn.conv.fp32_precision = "tf32"  # type: ignore[attr-defined]
    images = data(scale)
    return PlainLoop(
        split_model(scale),
        images.train,
        images.val,
        batch=scale.batch,
        workers=scale.workers,
        device=scale.device,
        clustered=defence == "clustering",
    )
