"""What every release channel has in common.

    z~ = shape(z) + N(0, noise_std^2 I)

An attacker may ask for the same image several times and average. With independent releases the mean
over n of them has noise of standard deviation noise_std / sqrt(n), so where the shaping is
deterministic one shaping and one draw have exactly the distribution of the mean. A channel whose
shaping is random overrides `__call__` and draws n times what is not Gaussian.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cemlib.numerics.leakage import leakage_estimate


@dataclass(frozen=True)
class Channel:
    """The way of clean features z to everyone else.

    Attributes:
        noise_std: standard deviation of the Gaussian noise added last; 0 adds and draws none.
    """

    noise_std: float

    @property
    def std(self) -> float:
        """Return the standard deviation of all additive noise on a feature of one release."""
        return self.noise_std

    def __call__(self, features: Tensor, generator: torch.Generator, queries: int = 1) -> Tensor:
        """Return the mean of independent releases, differentiable in the features.

        Args:
            features: clean features, (N, ...).
            generator: where the noise is drawn, on its device; moved to the features' afterwards.
            queries: number of releases.

        Returns:
            A tensor of the features' shape, device and dtype.
        """
        std = self.noise_std / math.sqrt(queries)
        return add_noise(self.shape(features), std, generator)

    def shape(self, features: Tensor) -> Tensor:
        """Return what is done to features (N, ...) before noise, without chance; here nothing."""
        return features

    def moments(self, features: Tensor, queries: int = 1) -> tuple[Tensor, Tensor]:
        """Return what releases are on average, and the variance of their noise.

        Args:
            features: clean features, (N, D).
            queries: number of releases that are averaged.

        Returns:
            The mean of a release of each sample, (N, D), and the variance of what is released of a
            feature about that mean, averaged over the samples, (D,).
        """
        mean = self.shape(features)
        return mean, mean.new_full((mean.shape[1],), self.std**2 / queries)

    def misfit(self, features: Tensor, released: Tensor, queries: int = 1) -> Tensor:  # noqa: ARG002
        """Measure how badly candidate features explain a release.

        -2 s^2 log p(released | features) up to a constant, where s is the standard deviation of the
        noise on the mean of the releases: for Gaussian noise the sum of squared errors. An attacker
        minimises it, knowing the channel.

        Args:
            features: candidates for the clean features, (N, ...).
            released: what was released, of the same shape.
            queries: number of releases that it is the mean of.

        Returns:
            (N,), differentiable in the features.
        """
        return (released - self.shape(features)).flatten(1).square().sum(1)

    def leakage(self, features: Tensor, labels: Tensor) -> float:
        """Estimate an upper bound on I(x; z~) in nats; n releases tell at most n times that.

        Args:
            features: clean features, (N, D).
            labels: classes, (N,).

        Returns:
            `cemlib.numerics.leakage.leakage_estimate` of the shaped features. Shaping is a function
            of the image, so the bound holds for it as for any features. Infinite without noise.

        Raises:
            ValueError: as for `leakage_estimate`.
        """
        return leakage_estimate(self.shape(features), labels, self.std)


def add_noise(features: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """Return features of any shape plus N(0, std^2 I); the same tensor where std is 0."""
    if std == 0:
        return features
    noise = torch.randn(features.shape, generator=generator, device=generator.device)
    return features + std * noise.to(features.device, features.dtype)
