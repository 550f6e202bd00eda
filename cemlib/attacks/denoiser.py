"""A denoiser trained on the attacker's images, as a prior over images.

    prior(x) = <x, x - D(x)> / (2 P),     gradient (x - D(x)) / P,     P pixels in an image

Regularisation by denoising: Romano, Elad and Milanfar, "The little engine that could", SIAM Journal
on Imaging Sciences 10(4), 2017. Its gradient leaves out the derivative of D. If D has the least
squared error for Gaussian noise of standard deviation s, then D(x) - x is s^2 times the gradient of
the log density of images with such noise (Miyasawa, "An empirical Bayes estimator of the mean of a
normal population", Bulletin of the International Statistical Institute 38, 1961). Behind a client
with D features and Gaussian noise of standard deviation n, a weight of 2 P n^2 / (D s^2) relative
to the mean squared misfit of the features therefore is that of the maximum a posteriori.

D is the network of the attack `decoder` with that attack's defaults, which sees images with noise
in place of releases.

How it fails: D knows what the attacker's images have in common. With few images it has learned
these by heart, and what none of them has is taken for noise.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from cemlib.attacks.decoder import Correction
from cemlib.attacks.task import Pairs, Task
from cemlib.config.attacks import Decoder
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.numerics.seeds import derive
from cemlib.records.checkpoint import Checkpoint


def denoiser(task: Task, noise_std: float) -> nn.Module:
    """Train a denoiser of images (N, C, H, W) in [0, 1]; it is returned in eval mode and frozen.

    A killed attack continues its training.

    Raises:
        DivergedError: if its loss is not finite.
    """
    training = Correction(
        replace(
            task,
            victim=replace(task.victim, channel=GaussianNoise(noise_std)),
            own=_released_as_they_are(task.own),
            held_out=_released_as_they_are(task.held_out),
            options=Decoder().model_dump(),
            seed=derive(task.seed, "denoiser"),
            title=f"{task.title}, denoiser",
            checkpoint=Checkpoint(task.checkpoint.folder / "denoiser", task.checkpoint.interval),
        )
    )
    training.train()
    return training.best().requires_grad_(False)


def prior(images: Tensor, denoise: nn.Module) -> Tensor:
    """Return the prior (N,) of images (N, C, H, W), twice as steep as it is without a gradient.

    The noise that the denoiser sees in the images counts as constant, so the gradient is that of
    the regularisation.
    """
    with torch.no_grad():
        noise = images - denoise(images)
    means: Tensor = (images * noise).flatten(1).mean(1)
    return means


def _released_as_they_are(pairs: Pairs) -> Pairs:
    return replace(pairs, features=pairs.targets())
