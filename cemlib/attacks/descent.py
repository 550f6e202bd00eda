"""Gradient descent on images, each towards what was released of it, with total variation.

    loss of an image x in [0, 1] = misfit(f(x), z~) / D + tv_weight * TV(x),  D features of f

The misfit is the channel's (the sum of squared errors for Gaussian noise), and TV the mean squared
difference of vertical neighbours plus that of horizontal ones. Both parts are means, so that a
weight keeps its meaning across sizes of images and features.

Sources: He, Zhang and Lee, "Model inversion attacks against collaborative inference", ACSAC 2019,
with the exponent 2 in their total variation, as in their code; Kingma and Ba, "Adam: a method for
stochastic optimization", ICLR 2015. Projected on [0, 1] after each step.

Adam's steps have about the size of the learning rate whatever the gradient's, so that it reaches
any image within 1 / lr steps. Pooling and ReLU make the problem one with many local minima.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cemlib.attacks.task import Task
from cemlib.numerics.optim import Adam
from cemlib.numerics.replay import Replay


def total_variation(images: Tensor) -> Tensor:
    """Return the mean squared difference of vertical neighbours plus that of horizontal ones.

    Args:
        images: (N, C, H, W) with H and W of at least 2.

    Returns:
        (N,) in units of squared pixel values.
    """
    down, right = (images.diff(dim=side).square().flatten(1).mean(1) for side in (2, 3))
    return down + right


@dataclass(frozen=True)
class Settings:
    """The settings with which every release is inverted."""

    steps: int
    lr: float
    tv_weight: float


class Descent:
    """Adam on the images of some releases; what it does to one image depends on no other.

    Attributes:
        images: (N, C, H, W) in [0, 1], where the descent stands.
        done: Steps taken.
    """

    def __init__(self, task: Task, released: Tensor, settings: Settings) -> None:
        self._task, self._released, self._settings = task, released, settings
        start = _start(task, released).contiguous(memory_format=torch.channels_last)
        self.images = nn.Parameter(start)
        self.done = 0
        self._optimiser = Adam([self.images])
        self._replay = Replay(start.device, list)

    def misfit(self) -> Tensor:
        """Return the misfit per feature of each image, (N,)."""
        victim = self._task.victim
        features: Tensor = victim.model.encoder(self.images)
        misfit = victim.channel.misfit(features, self._released, self._task.queries)
        return misfit / features[0].numel()

    def go_on(self, steps: int) -> None:
        """Take steps until so many are done."""
        for _ in range(steps - self.done):
            self._replay(self._step, None)
        self.done = steps

    def _step(self) -> None:
        loss = self.misfit() + self._settings.tv_weight * total_variation(self.images)
        self._optimiser.zero_grad()
        # A sum, so that an image's path does not depend on how many others are beside it.
        loss.sum().backward(inputs=[self.images])  # type: ignore[no-untyped-call]
        self._optimiser.step(self._settings.lr)
        self.images.data.clamp_(0, 1)


def _start(task: Task, released: Tensor) -> Tensor:
    if task.start is None:
        return torch.full((len(released), *task.image_shape), 0.5, device=released.device)
    with torch.no_grad():
        answers: Tensor = task.start(released)
    return answers.clamp(0, 1)
