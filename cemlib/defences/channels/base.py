"""The base class of release channels.

    z~ = shape(z) + N(0, noise_std^2 I)

The noise of the mean of n independent releases has standard deviation noise_std / sqrt(n), so with
a deterministic `shape` a single draw has the distribution of the mean. A channel with other random
parts overrides `__call__` and draws those n times.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cemlib.config.base import Section
from cemlib.numerics.leakage import leakage_estimate


@dataclass(frozen=True)
class Channel:
    """A release channel, with noise of standard deviation `noise_std` (none is drawn for 0)."""

    noise_std: float
    settings: Section | None = None

    masks = False
    """Whether random features are missing from a release.

    Then the best estimate of the features is not linear in the release, and the network of the
    attack `decoder` gets the release itself, too.
    """
    plain = False
    """Whether a release is the features plus Gaussian noise, and nothing else."""

    @property
    def std(self) -> float:
        """Return the standard deviation of all additive noise on a released feature."""
        return self.noise_std

    def __call__(self, features: Tensor, generator: torch.Generator, queries: int = 1) -> Tensor:
        """Return the mean of `queries` releases, differentiable in the features (N, ...).

        The result has the features' shape, device and dtype; the generator's device may differ.
        """
        std = self.noise_std / math.sqrt(queries)
        return add_noise(self.shape(features), std, generator)

    def shape(self, features: Tensor) -> Tensor:
        """Apply the deterministic part of the channel to features (N, ...); here nothing."""
        return features

    def moments(self, features: Tensor, queries: int = 1) -> tuple[Tensor, Tensor]:
        """Return the expected mean (N, D) of releases of features (N, D), and its variance (D,).

        The mean is of `queries` releases, and the variance is averaged over the samples.
        """
        mean = self.shape(features)
        return mean, mean.new_full((mean.shape[1],), self.std**2 / queries)

    def misfit(self, features: Tensor, released: Tensor, queries: int = 1) -> Tensor:  # noqa: ARG002
        """Return how badly the features (N, ...) of each image explain its mean release, (N,).

        A white-box attack minimises it. It is -2 s^2 log p(released | features) up to a constant,
        with the standard deviation s of the noise on the mean of `queries` releases: for Gaussian
        noise the sum of squared errors.
        """
        return (released - self.shape(features)).flatten(1).square().sum(1)

    def leakage(self, features: Tensor, labels: Tensor) -> float:
        """Estimate an upper bound on I(x; z~) in nats, from features (N, D) and labels (N,).

        This is `cemlib.numerics.leakage.leakage_estimate` of the shaped features, infinite without
        noise. n releases have at most n times the information.

        Raises:
            ValueError: as `leakage_estimate` does.
        """
        return leakage_estimate(self.shape(features), labels, self.std)


def add_noise(features: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """Return features of any shape plus N(0, std^2 I); the same tensor where std is 0."""
    if std == 0:
        return features
    noise = torch.randn(features.shape, generator=generator, device=generator.device)
    return features + std * noise.to(features.device, features.dtype)
