"""The class of each image, which the attacker knows besides its release.

The class is appended to features and releases as one map per class, 1 for the class of the image
and 0 for the others, that is released unchanged. The linear reconstruction of the default attack
becomes a regression with one intercept per class and common slopes. Its network sees the class
through the linear estimates, or directly where there are none.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.attacks.task import Pairs, Task


def with_class(task: Task, labels: Tensor, classes: int) -> Task:
    """Return a task that also tells every image's class; `labels` (N,) are those of `released`."""
    return replace(
        task,
        own=_told(task.own, classes),
        held_out=_told(task.held_out, classes),
        released=_append(task.released, labels, classes),
        class_maps=classes,
    )


def _told(pairs: Pairs, classes: int) -> Pairs:
    return replace(pairs, features=_append(pairs.features, pairs.labels, classes))


def _append(features: Tensor, labels: Tensor, classes: int) -> Tensor:
    maps = F.one_hot(labels, classes).to(features)[:, :, None, None]
    return torch.cat([features, maps.expand(-1, -1, *features.shape[2:])], 1)
