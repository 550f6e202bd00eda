"""Dropout at release: features vanish by chance, anew in every release.

    z~ = m * z + N(0, noise_std^2 I),   m_d = 1 with probability 1 - rate, else 0

Source: He, Zhang and Lee, "Attacking and protecting data privacy in edge-cloud collaborative
inference systems", IEEE Internet of Things Journal 8(12), 2021. Unlike dropout in training, the
rest is not rescaled, and the mask is drawn in training, in test and for the attacker alike.

What it costs and how it fails: the server loses a share of its input, for which it can train. Where
the noise is small, a zero marks itself and an attacker fills the gap from correlated features. The
mean of n releases tends to (1 - rate) z, and a feature stays unseen with probability rate^n only:
averaging reveals everything.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cemlib.defences.channels.base import Channel
from cemlib.numerics.leakage import leakage_estimate

FLOOR = 0.01  # noise that the likelihood assumes at least: without any it would be no density


@dataclass(frozen=True)
class Dropout(Channel):
    """Independent dropout of features, then Gaussian noise.

    Attributes:
        rate: probability that a feature is set to zero, in [0, 1).
    """

    rate: float = 0.2

    def __call__(self, features: Tensor, generator: torch.Generator, queries: int = 1) -> Tensor:
        """Return the mean of releases with a fresh mask each; see `Channel`."""
        kept = self._kept(features.shape, generator, queries)
        kept = kept.to(features.device, features.dtype)
        return super().__call__(features * kept, generator, queries)

    def moments(self, features: Tensor, queries: int = 1) -> tuple[Tensor, Tensor]:
        """Return mean (N, D) and variance (D,) of releases; the mask varies with the feature."""
        by_mask = self.rate * (1 - self.rate) * features.square().mean(0)
        return (1 - self.rate) * features, (by_mask + self.std**2) / queries

    def _kept(self, size: torch.Size, generator: torch.Generator, queries: int) -> Tensor:
        """Draw the share of the releases that hold each feature."""
        count = torch.zeros(size, device=generator.device)
        for _ in range(queries):
            drawn = torch.rand(size, generator=generator, device=generator.device)
            count += drawn >= self.rate
        return count / queries

    def misfit(self, features: Tensor, released: Tensor, queries: int = 1) -> Tensor:
        """Return -2 s^2 log-likelihood of the mean of n releases, whose masks nobody is told.

        A mixture over the number j of releases that held the feature, for each feature on its own:

            p(z~ | z) = sum_j Binomial(j; n, 1 - rate) N(z~; j z / n, s^2),  s = noise_std / sqrt(n)

        with at least `FLOOR` for noise_std. Arguments as for `Channel.misfit`.
        """
        variance = max(self.noise_std, FLOOR) ** 2 / queries
        count = torch.arange(queries + 1, device=features.device, dtype=features.dtype)[
            :, None, None
        ]
        errors = (released.flatten(1) - count / queries * features.flatten(1)).square()
        terms = _log_binomial(count, queries, 1 - self.rate) - errors / (2 * variance)
        return -2 * variance * terms.logsumexp(0).sum(1)

    def leakage(self, features: Tensor, labels: Tensor) -> float:
        """Estimate the bound for features (N, D) of which 1 - rate of the variance is left.

        The mask m is independent of the image x, so I(x; z~) <= I(x; z~, m) = I(x; z~ | m), which
        for one mask is at most `sum_k pi_k (-log pi_k + 1/2 log |I + M Sigma_k M / s^2|)` with
        M = diag(m). The determinant equals `|I + S M S / s^2|` with S the root of Sigma_k, as
        M^2 = M; its logarithm is concave in M, so that the mean over masks is at most the value at
        the mean mask, where M is (1 - rate) I. This is never above the bound without dropout.
        """
        return leakage_estimate(math.sqrt(1 - self.rate) * features, labels, self.std)


def _log_binomial(count: Tensor, n: int, p: float) -> Tensor:
    """Return log probabilities of `count` successes in n trials."""
    ways: Tensor = math.lgamma(n + 1) - torch.lgamma(count + 1) - torch.lgamma(n - count + 1)
    # xlogy is 0 where nothing of an impossible kind is asked for, so that p = 1 needs no case.
    failure: Tensor = torch.special.xlogy(n - count, 1 - p)
    return ways + count * math.log(p) + failure
