"""Training steps of this package, by the trainer that `cemlib train` builds."""

from functools import cache
from itertools import count

import torch
from torch.nn import functional as F

from cemlib.bench.floor import flops
from cemlib.bench.scale import CLASSES, Scale
from cemlib.bench.subject import prepared, split_model, study
from cemlib.bench.timing import Timing, Work, alternately
from cemlib.data.prepared import Prepared
from cemlib.device import set_up
from cemlib.training.setup import Setup
from cemlib.training.trainer import Trainer

FIRST = 6  # every surrogate acts from here on, and the learning rate is still the first


def data(scale: Scale) -> Prepared:
    """Images for one pass, and a tenth of them to score."""
    images = scale.steps * scale.batch
    return prepared(images, max(CLASSES, images // 10), scale)


def trainer(scale: Scale, defence: str) -> Trainer:
    """A training at its start, on the scale's device and threads."""
    set_up(torch.device(scale.device), scale.threads)
    setup, images = Setup(study(scale), defence, seed=0), data(scale).to(scale.device)
    return setup.trainer(images, setup.network(images))


def warm_steps(scale: Scale, defence: str) -> Work:
    """A pass over the steps of a training that has a whole epoch behind it."""
    warm, numbers = trainer(scale, defence), count(FIRST)
    warm.epoch(next(numbers))
    return Work(lambda: warm.pass_over(next(numbers)), scale.steps)


@cache
def undefended_ms(scale: Scale) -> float:
    """Milliseconds of our step without a surrogate; measured once a process."""
    work = warm_steps(scale, "noise")
    (found,) = alternately([work], scale.passes, scale.device, warm_up=False)
    return float(found["milliseconds"])


def with_images(timing: Timing, images: int) -> Timing:
    """A timing with `images_per_second`, where one of what it counts takes so many images."""
    return timing | {"images_per_second": 1e3 * images / timing["milliseconds"]}


def step_flops(scale: Scale) -> float:
    """Operations of the network's forward and backward pass on a batch."""
    shape = (scale.batch, scale.channels, scale.image_size, scale.image_size)
    with torch.device("meta"):  # shapes alone tell
        model, images = split_model(scale), torch.empty(shape)
        labels = torch.zeros(scale.batch, dtype=torch.long)

    def step() -> None:
        F.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]

    return flops(step)
