"""Local differential privacy: features are clipped to a norm, and matching noise is added.

    z~ = c + noise + N(0, noise_std^2 I),   c = z min(1, clip / ||z||),   per sample

The distance of any two clipped samples is at most the sensitivity 2 clip, in the mechanism's norm:

    laplace    L1 norm, noise of density exp(-|t| / b) / 2b with b = 2 clip / epsilon: epsilon-DP
    gaussian   L2 norm, the smallest sigma such that, with u = 2 clip / sigma,
               Phi(u/2 - epsilon/u) - e^epsilon Phi(-u/2 - epsilon/u) <= delta: (epsilon, delta)-DP

Sources: Dwork, McSherry, Nissim and Smith, "Calibrating noise to sensitivity in private data
analysis", TCC 2006; Balle and Wang, "Improving the Gaussian mechanism for differential privacy:
analytical calibration and optimal denoising", ICML 2018 (theorem 8, exact for every epsilon).

Guarantee: for a fixed encoder, a release looks nearly the same for every image. n releases of an
image have n epsilon (and n delta) at worst. Information in the encoder's weights about training
images is not covered, nor is rounding in floating point (Mironov, CCS 2012). The added Gaussian
noise never weakens the guarantee.

How it fails: a small epsilon leaves chance accuracy, and a large one guarantees nothing. The L1
norm grows with the number of features, and the Laplace noise with it.
"""

import math
from functools import cached_property

import torch
from torch import Tensor

from cemlib.config.defences import LocalDPChannel
from cemlib.defences.channels.base import Channel, add_noise
from cemlib.numerics.gaussian import gaussian_delta

_HALF_STEP = 2.0**-24  # half the distance of float32 draws that are scaled to (-1, 1)


class LocalDP(Channel):
    """Clips each sample's features, adds the noise of a private mechanism, then Gaussian noise."""

    settings: LocalDPChannel

    @cached_property
    def scale(self) -> float:
        """Return b of the Laplace noise, or the standard deviation of the mechanism's Gaussian."""
        sensitivity = 2 * self.settings.clip
        if self.settings.mechanism == "laplace":
            return sensitivity / self.settings.epsilon
        return analytic_gaussian_std(self.settings.epsilon, self.settings.delta, sensitivity)

    @property
    def std(self) -> float:
        """Return the standard deviation of the sum of the mechanism's and the Gaussian noise."""
        own = math.sqrt(2) * self.scale if self.settings.mechanism == "laplace" else self.scale
        return math.hypot(own, self.noise_std)

    def __call__(self, features: Tensor, generator: torch.Generator, queries: int = 1) -> Tensor:
        """Return the mean of releases, each with new noise; see `Channel`."""
        released = super().__call__(features, generator, queries)
        if self.settings.mechanism == "gaussian":
            return add_noise(released, self.scale / math.sqrt(queries), generator)
        total = torch.zeros(released.shape, device=generator.device, dtype=torch.float32)
        for _ in range(queries):  # the mean of Laplace draws has no simple distribution
            total += laplace_quantile(torch.empty_like(total).uniform_(generator=generator))
        return released + self.scale / queries * total.to(released.device, released.dtype)

    def shape(self, features: Tensor) -> Tensor:
        """Scale each sample of features (N, ...) to a norm of at most `clip`."""
        rest = tuple(range(1, features.ndim))
        order = 1 if self.settings.mechanism == "laplace" else 2
        norms: Tensor = torch.linalg.vector_norm(features, ord=order, dim=rest, keepdim=True)
        return features * (self.settings.clip / norms.clamp(min=self.settings.clip))

    def misfit(self, features: Tensor, released: Tensor, queries: int = 1) -> Tensor:
        """Return squared errors of clipped features, or 4 b absolute errors for pure Laplace noise.

        The latter is -2 s^2 log p with s^2 = 2 b^2. Sums of Laplace noise, with Gaussian noise or
        over several queries, have no simple density and are treated as Gaussian.
        """
        if self.settings.mechanism == "laplace" and self.noise_std == 0 and queries == 1:
            errors = (released - self.shape(features)).flatten(1)
            return 4 * self.scale * errors.abs().sum(1)
        return super().misfit(features, released, queries)

    def leakage(self, features: Tensor, labels: Tensor) -> float:
        """Estimate the bound for clipped features (N, D), with epsilon as an upper limit.

        The entropy of the release is at most that of Gaussians of its covariance, which includes
        the total variance std^2 of the noise. The entropy of the noise is at least that of a
        Gaussian whose variance is the sum P of the entropy powers of its two parts (entropy power
        inequality). So D/2 log(std^2 / P) is added, which is 0 for Gaussian noise and at most
        .073 D for Laplace noise. Under epsilon-DP the densities of the releases of two images
        differ by a factor of at most e^epsilon, so I(x; z~), a mean of logarithms of such factors,
        is at most epsilon; further noise cannot raise it.
        """
        power = self.scale**2
        if self.settings.mechanism == "laplace":  # of entropy log(2 b e)
            power = 2 * math.e * power / math.pi
        power += self.noise_std**2
        gap = features.shape[1] / 2 * math.log(self.std**2 / power)
        bound = super().leakage(features, labels) + gap
        return min(bound, self.settings.epsilon) if self.settings.mechanism == "laplace" else bound


def laplace_quantile(uniform: Tensor) -> Tensor:
    """Return Laplace variables of scale 1 from uniform draws, by the quantile function.

    Float32 draws are multiples of 2^-24 in [0, 1). Scaled to [-1, 1) and moved by half a step, both
    without rounding, they are symmetric about 0 and never 0, 1 or -1, so the logarithm is finite.
    The tails end at 24 log 2 = 16.6.
    """
    centred = 2 * (uniform - 0.5) + _HALF_STEP
    return -centred.sign() * torch.log1p(-centred.abs())


def analytic_gaussian_std(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the smallest standard deviation of Gaussian noise for (epsilon, delta)-DP.

    The sensitivity is the largest L2 distance of two inputs.
    """
    high = 1.0
    while gaussian_delta(epsilon, high) > delta:
        high *= 2
    low = 0.0
    for _ in range(60):  # more than the bits of a float
        middle = (low + high) / 2
        if gaussian_delta(epsilon, middle) > delta:
            low = middle
        else:
            high = middle
    return sensitivity * high
