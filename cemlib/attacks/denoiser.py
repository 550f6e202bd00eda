"""A denoiser trained on the attacker's images, as a prior over images.

Regularisation by denoising (Romano, Elad and Milanfar, "The little engine that could", SIAM Journal
on Imaging Sciences 10(4), 2017) adds to the gradient of a loss, with the denoiser g,

    weight (x - g(x)) / P,        P values in an image, channels times pixels

In general no function has this gradient (Reehorst and Schniter, "Regularization by denoising:
clarifications and new interpretations", IEEE Transactions on Computational Imaging 5(1), 2019). But
if g has the least squared error for Gaussian noise of standard deviation t, then g(x) - x is t^2
times the gradient of log p_t(x), the density of images with such noise (Miyasawa, "An empirical
Bayes estimator of the mean of a normal population", Bulletin of the International Statistical
Institute 38, 1961). If the mean release of d features has Gaussian noise of standard deviation s,
the mean squared misfit of the features plus this term is, for the weight 2 P s^2 / (d t^2), the
negative logarithm of the posterior density, up to a factor.

g is the network of the attack `decoder`, which sees images with noise in place of releases.

How it fails: g knows what the attacker's images have in common. With few images it has learned
these by heart, and takes what none of them has for noise.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from cemlib.attacks.decoder import Correction
from cemlib.attacks.task import Pairs, Task
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.seeds import derive
from cemlib.records.checkpoint import Checkpoint

# As `decoder` has by default. They are here because they decide the results of this file.
OPTIONS: dict[str, Any] = {
    "kind": "decoder",
    "budget": "standard",
    "precision": "float32",
    "epochs": 8,
    "batch_size": 64,
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "blocks": 4,
    "width": 32,
}


def denoiser(task: Task, noise_std: float) -> nn.Module:
    """Train a denoiser of images (N, C, H, W) in [0, 1]; it is returned in eval mode and frozen.

    A killed attack continues its training.

    Raises:
        DivergedError: if its loss is not finite.
    """
    checkpoint = Checkpoint(task.checkpoint.folder / "denoiser", task.checkpoint.interval)
    denoising = replace(
        task,
        victim=replace(task.victim, channel=GaussianNoise(noise_std)),
        own=_released_as_they_are(task.own),
        held_out=_released_as_they_are(task.held_out),
        options=OPTIONS,
        seed=derive(task.seed, "denoiser"),
        title=f"{task.title}, denoiser",
        checkpoint=checkpoint,
    )
    training = Correction(denoising)
    try:
        training.train()
    except DivergedError as error:
        raise DivergedError(f"denoiser: {error}") from error
    checkpoint.write_kept()
    return training.best().requires_grad_(False)


def _released_as_they_are(pairs: Pairs) -> Pairs:
    return replace(pairs, features=pairs.targets())


def posterior_weight(task: Task, noise_std: float) -> float:
    """Return the weight with which the most probable image is searched for; 0 without noise."""
    released = task.victim.channel.std / noise_std
    ratio = math.prod(task.image_shape) / task.released[0].numel()
    return 2 * ratio * released**2 / task.queries


def prior(images: Tensor, denoise: nn.Module) -> Tensor:
    """Return (N,) whose gradient in the images x (N, C, H, W) is (x - g(x)) / P.

    It is the mean of x (x - g(x)) over each image, where x - g(x) counts as constant.
    """
    with torch.no_grad():
        noise = images - denoise(images)
    means: Tensor = (images * noise).flatten(1).mean(1)
    return means
