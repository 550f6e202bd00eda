"""The decoder with a distance between features of a classifier in its loss.

Johnson, Alahi and Fei-Fei, "Perceptual losses for real-time style transfer and super-resolution",
ECCV 2016; the distance is the one of `cemlib.attacks.features`:

    loss = MSE(D(z~), x) + feature_weight * distance(D(z~), x)

The features are those of the study's undefended judge, or of a pretrained VGG16. Its answers are
sharper than the plain decoder's and cost some MSE; where a release says little, the sharp details
are invented.
"""

import copy
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.features import activations, distance, vgg16
from cemlib.attacks.learning import Numbers, Regression, learn
from cemlib.attacks.task import Outcome, Task


def perceptual(task: Task) -> Outcome:
    """Train the decoder on the attacker's pairs, then answer every release.

    Raises:
        DivergedError: if its loss is no longer a number.
        FileError: the file of pretrained weights is missing or does not fit.
        ValueError: the judge has no layer whose features could be compared.
    """
    network = feature_network(task)
    return learn(task, lambda planned: _Perceptual(planned, network))


class _Perceptual(Regression):
    def __init__(self, task: Task, network: nn.Module) -> None:
        super().__init__(task, self._loss)
        self.network = network

    def _loss(self, answers: Tensor, targets: Tensor) -> tuple[Tensor, Numbers]:
        mse = F.mse_loss(answers, targets)
        with self.precision():
            with torch.no_grad():
                theirs = activations(self.network, targets)
            ours = activations(self.network, answers)
        apart = distance(ours, theirs)
        loss = mse + self.options["feature_weight"] * apart
        return loss, {"train_mse": mse.detach(), "train_distance": apart.detach()}


def feature_network(task: Task) -> nn.Module:
    """Return the network whose features are compared, in eval mode and frozen."""
    file, device = task.options["pretrained"], task.own.features.device
    # A copy: freezing must not reach the task's own judge. Its weights stay in their order in
    # memory: not every network works in another one.
    network = _pretrained(task, Path(file)) if file else copy.deepcopy(task.judge)
    return network.to(device).eval().requires_grad_(False)


def _pretrained(task: Task, file: Path) -> nn.Module:
    return vgg16(file, task.image_shape[-1]).to(memory_format=torch.channels_last)
