"""A denoiser trained on the attacker's images, as a prior over images.

Regularisation by denoising (Romano, Elad and Milanfar, "The little engine that could", SIAM Journal
on Imaging Sciences 10(4), 2017) adds to the gradient of a loss, with the denoiser g,

    weight (x - g(x)) / P,        P values in an image, channels times pixels

In general no function has this gradient (Reehorst and Schniter, "Regularization by denoising:
clarifications and new interpretations", IEEE Transactions on Computational Imaging 5(1), 2019). But
if g has the least squared error for Gaussian noise of standard deviation t, then g(x) - x is t^2
times the gradient of log p_t(x), the density of images with such noise (Miyasawa, "An empirical
Bayes estimator of the mean of a normal population", Bulletin of the International Statistical
Institute 38, 1961). Let the mean release of d features have Gaussian noise of standard deviation s.
With the weight 2 P s^2 / (d t^2), the term above plus the gradient of the mean squared misfit is
the gradient of the negative log posterior of images of density p_t, up to a factor.

g is the network of the attack `decoder`, which sees images with noise in place of releases.

How it fails: if the attacker's images are few, g memorises them, and removes as noise whatever none
of them contains. The most probable image is not the mean of all that fit a release, which has the
least squared error and which `decoder` estimates.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from cemlib.attacks.decoder import Correction
from cemlib.attacks.task import Pairs, Task
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models.split import SplitModel
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.seeds import derive
from cemlib.records.checkpoint import Checkpoint

# The defaults of `decoder`, repeated here because they decide results: an edit of `cemlib.config`
# makes no job run again.
OPTIONS: dict[str, Any] = {
    "kind": "decoder",
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

    Raises:
        DivergedError: if its loss is not finite.
    """
    training = Correction(denoising(task, noise_std))
    try:
        training.train()
    except DivergedError as error:
        raise DivergedError(f"denoiser: {error}") from error
    training.task.checkpoint.write_kept()
    return training.best_decoder().requires_grad_(False)


def denoising(task: Task, noise_std: float) -> Task:
    """Return the task of `decoder` on images that are released as they are, with noise."""
    held_out = _released_as_they_are(task.held_out)
    nothing = SplitModel(nn.Identity(), nn.Identity(), task.image_shape)
    return replace(
        task,
        victim=Deployed(nothing, GaussianNoise(noise_std)),
        own=_released_as_they_are(task.own),
        held_out=held_out,
        released=held_out.features,
        options=OPTIONS,
        seed=derive(task.seed, "denoiser"),
        title=f"{task.title}, denoiser",
        checkpoint=Checkpoint(task.checkpoint.folder / "denoiser", task.checkpoint.interval),
    )


def _released_as_they_are(pairs: Pairs) -> Pairs:
    return replace(pairs, features=pairs.targets())


def posterior_weight(task: Task, noise_std: float) -> float:
    """Return the weight that makes the minimum of the loss the most probable image.

    It is 0 without additive noise. Behind dropout it is too small if the noise is below the
    channel's `FLOOR`, because the misfit then counts the noise as `FLOOR`.
    """
    relative = task.victim.channel.std / noise_std
    values = math.prod(task.image_shape) / task.released[0].numel()  # for each feature
    return 2 * values * relative**2 / task.queries


def prior(images: Tensor, denoise: nn.Module) -> Tensor:
    """Return values (N,) whose gradient in the images x (N, C, H, W) is (x - g(x)) / P."""
    with torch.no_grad():
        noise = images - denoise(images)
    means: Tensor = (images * noise).flatten(1).mean(1)
    return means
