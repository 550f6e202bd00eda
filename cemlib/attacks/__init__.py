"""Attacks by kind: functions from a `Task` to an `Outcome` with its reconstructions."""

from collections.abc import Callable

from cemlib.attacks.decoder import decoder
from cemlib.attacks.gan import gan
from cemlib.attacks.linear import linear
from cemlib.attacks.mean_image import mean_image
from cemlib.attacks.optimisation import optimisation
from cemlib.attacks.perceptual import perceptual
from cemlib.attacks.random_features import random_features
from cemlib.attacks.residual import residual
from cemlib.attacks.task import Outcome, Task

ATTACKS: dict[str, Callable[[Task], Outcome]] = {
    "decoder": decoder,
    "residual": residual,
    "perceptual": perceptual,
    "gan": gan,
    "optimisation": optimisation,
    "random_features": random_features,
    "linear": linear,
    "mean_image": mean_image,
}
"""The function behind each kind of attack."""
