"""Local differential privacy: features clipped to a norm, then noise to match.

    z~ = c + noise + N(0, noise_std^2 I),   c = z min(1, clip / ||z||),   per sample

Any two samples' c lie within the sensitivity 2 clip of each other, in the norm of the mechanism:

    laplace    L1 norm, noise of density exp(-|t| / b) / 2b with b = 2 clip / epsilon: epsilon-DP
    gaussian   L2 norm, the smallest sigma for which with u = 2 clip / sigma
               Phi(u/2 - epsilon/u) - e^epsilon Phi(-u/2 - epsilon/u) <= delta: (epsilon, delta)-DP

Sources: Dwork, McSherry, Nissim and Smith, "Calibrating noise to sensitivity in private data
analysis", TCC 2006; Balle and Wang, "Improving the Gaussian mechanism for differential privacy:
analytical calibration and optimal denoising", ICML 2018 (theorem 8, exact for every epsilon, where
the textbook's sqrt(2 log(1.25 / delta)) 2 clip / epsilon holds below 1 only and is larger).

What it guarantees: one released tensor, of a fixed encoder, looks nearly the same whichever image
was behind it. n releases of an image have n epsilon (and n delta) at worst; what the encoder's
weights tell about training images is not covered. The guarantee is of real numbers: rounding in
floating point (Mironov, CCS 2012) is not accounted for. Noise on top can only help.

What it costs and how it fails: the noise hides every image among all others, which is far more than
a reconstruction needs, so small epsilon leaves chance accuracy and large epsilon guarantees nothing
worth the name. The L1 norm grows with the number of features, and the Laplace noise with it.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
from torch import Tensor

from cemlib.defences.channels.base import Channel, add_noise

_HALF_STEP = 2.0**-24  # of uniform float32 draws stretched over (-1, 1)


@dataclass(frozen=True)
class LaplaceMechanism:
    """Laplace noise of a scale b."""

    scale: float
    norm: ClassVar[int] = 1

    @property
    def std(self) -> float:
        """Return the standard deviation of the noise."""
        return math.sqrt(2) * self.scale

    @property
    def entropy_power(self) -> float:
        """Return the variance of the Gaussian of the same entropy, log(2 b e)."""
        return 2 * math.e * self.scale**2 / math.pi

    def add(self, features: Tensor, generator: torch.Generator, queries: int) -> Tensor:
        """Add the mean of `queries` draws; that mean is no Laplace variable."""
        total = torch.zeros(features.shape, device=generator.device, dtype=torch.float32)
        for _ in range(queries):
            total += laplace_quantile(torch.empty_like(total).uniform_(generator=generator))
        return features + self.scale / queries * total.to(features.device, features.dtype)


@dataclass(frozen=True)
class GaussianMechanism:
    """Gaussian noise of a standard deviation."""

    std: float
    norm: ClassVar[int] = 2

    @property
    def entropy_power(self) -> float:
        """Return the variance of the Gaussian of the same entropy, which is its own."""
        return self.std**2

    def add(self, features: Tensor, generator: torch.Generator, queries: int) -> Tensor:
        """Add the mean of `queries` draws, itself one draw."""
        return add_noise(features, self.std / math.sqrt(queries), generator)


@dataclass(frozen=True)
class LocalDP(Channel):
    """Clipping of each sample's features, noise of a private mechanism, then Gaussian noise.

    Attributes:
        epsilon: privacy budget of one release, above 0.
        mechanism: its noise.
        clip: norm that the features of a sample are clipped to, above 0.
        delta: slack of the Gaussian mechanism, in (0, 1); the Laplace mechanism has none.
    """

    epsilon: float = 5000.0
    mechanism: Literal["laplace", "gaussian"] = "laplace"
    clip: float = 300.0
    delta: float = 1e-5

    @cached_property
    def calibrated(self) -> LaplaceMechanism | GaussianMechanism:
        """Return the mechanism with the noise that the budget asks for."""
        sensitivity = 2 * self.clip
        if self.mechanism == "laplace":
            return LaplaceMechanism(sensitivity / self.epsilon)
        return GaussianMechanism(analytic_gaussian_std(self.epsilon, self.delta, sensitivity))

    @property
    def std(self) -> float:
        """Return the standard deviation of the mechanism's and the added noise together."""
        return math.hypot(self.calibrated.std, self.noise_std)

    def __call__(self, features: Tensor, generator: torch.Generator, queries: int = 1) -> Tensor:
        """Return the mean of releases with fresh noise each; see `Channel`."""
        released = super().__call__(features, generator, queries)
        return self.calibrated.add(released, generator, queries)

    def shape(self, features: Tensor) -> Tensor:
        """Scale features (N, ...) down, sample by sample, to a norm of at most `clip`."""
        rest, order = tuple(range(1, features.ndim)), self.calibrated.norm
        norms: Tensor = torch.linalg.vector_norm(features, ord=order, dim=rest, keepdim=True)
        return features * (self.clip / norms.clamp(min=self.clip))

    def misfit(self, features: Tensor, released: Tensor, queries: int = 1) -> Tensor:
        """Return squared errors of clipped features; 4 b absolute ones for Laplace noise alone.

        The latter is -2 s^2 log p with s^2 = 2 b^2. Sums of Laplace noise with Gaussian noise or,
        over several queries, with itself have no simple density: they are taken as Gaussian of the
        same variance. Arguments as for `Channel.misfit`.
        """
        noise = self.calibrated
        if isinstance(noise, LaplaceMechanism) and self.noise_std == 0 and queries == 1:
            errors = (released - self.shape(features)).flatten(1)
            return 4 * noise.scale * errors.abs().sum(1)
        return super().misfit(features, released, queries)

    def leakage(self, features: Tensor, labels: Tensor) -> float:
        """Estimate the bound for clipped features (N, D), or take epsilon where that is lower.

        The entropy of the release is at most that of Gaussians of its covariance, which holds the
        total variance std^2 of the noise; the noise's own entropy is at least that of a Gaussian
        whose variance is the sum P of the entropy powers of its two parts (entropy power
        inequality). So D/2 log(std^2 / P) comes on top, which is 0 for Gaussian noise and at most
        .073 D for Laplace noise. Under epsilon-DP the densities of two images' releases differ by
        a factor of e^epsilon at most, and I(x; z~), a mean of logarithms of such factors, by
        epsilon at most; noise added later cannot raise it.
        """
        noise = self.calibrated
        power = noise.entropy_power + self.noise_std**2
        gap = features.shape[1] / 2 * math.log(self.std**2 / power)
        bound = super().leakage(features, labels) + gap
        return min(bound, self.epsilon) if self.mechanism == "laplace" else bound


def laplace_quantile(uniform: Tensor) -> Tensor:
    """Return Laplace variables of scale 1 from uniform draws, by the quantile function.

    Float32 draws are multiples of 2^-24 in [0, 1). Stretched to (-1, 1) and moved by half a step,
    all exactly, they are symmetric about 0 and reach neither 0 nor an end, where the logarithm
    would be infinite. The tails end at 24 log 2 = 16.6.
    """
    centred = 2 * (uniform - 0.5) + _HALF_STEP
    return -centred.sign() * torch.log1p(-centred.abs())


def analytic_gaussian_std(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the smallest standard deviation of Gaussian noise that is (epsilon, delta)-DP.

    Args:
        epsilon: above 0.
        delta: in (0, 1).
        sensitivity: largest L2 distance of two inputs.
    """
    high = 1.0
    while gaussian_delta(epsilon, 1 / high) > delta:
        high *= 2
    while gaussian_delta(epsilon, 2 / high) <= delta:
        high /= 2
    low = high / 2
    for _ in range(60):  # more than the bits of a float
        middle = (low + high) / 2
        if gaussian_delta(epsilon, 1 / middle) > delta:
            low = middle
        else:
            high = middle
    return sensitivity * high


def gaussian_delta(epsilon: float, distance: float) -> float:
    """Return the smallest delta for inputs `distance` standard deviations apart.

    Phi(u/2 - epsilon/u) - e^epsilon Phi(-u/2 - epsilon/u), the second term by its logarithm,
    because its factors overflow and vanish where epsilon is in the hundreds.
    """
    near = epsilon / distance - distance / 2
    far = epsilon / distance + distance / 2
    return math.erfc(near / math.sqrt(2)) / 2 - math.exp(epsilon + _log_tail(far))


def _log_tail(t: float) -> float:
    """Return log P(N(0, 1) > t) for t > 0."""
    if t < 30:
        return math.log(math.erfc(t / math.sqrt(2)) / 2)
    # Asymptotic series: its next term is below 2e-10 here, where erfc is close to underflow.
    series = 1 - 1 / t**2 + 3 / t**4 - 15 / t**6
    return -(t**2) / 2 - math.log(t * math.sqrt(2 * math.pi)) + math.log(series)
