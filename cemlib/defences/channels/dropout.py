"""Dropout at release: random features are set to zero, anew in every release.

    z~ = m * z + N(0, noise_std^2 I),   m_d = 1 with probability 1 - rate, else 0

Source: He, Zhang and Lee, "Attacking and protecting data privacy in edge-cloud collaborative
inference systems", IEEE Internet of Things Journal 8(12), 2021. Unlike the usual dropout, the other
features are not rescaled, and masks are drawn in training, in test and for the attacker alike.

How it fails: if the noise is small, an attacker recognises the zeros, and fills them from
correlated features. A feature is missing in all of n releases with probability rate^n only, so
averaging reveals everything.
"""

import math

import torch
from torch import Tensor

from cemlib.config.defences import DropoutChannel
from cemlib.defences.channels.base import Channel
from cemlib.numerics.leakage import leakage_estimate

FLOOR = 0.01  # smallest noise_std in the likelihood, which has no density without noise


class Dropout(Channel):
    """Independent dropout of features, then Gaussian noise."""

    settings: DropoutChannel
    masks = True

    def __call__(self, features: Tensor, generator: torch.Generator, queries: int = 1) -> Tensor:
        """Return the mean of releases, each with a new mask; see `Channel`."""
        count = torch.zeros(features.shape, device=generator.device)
        for _ in range(queries):
            draws = torch.rand(count.shape, generator=generator, device=count.device)
            count += draws >= self.settings.rate
        kept = (count / queries).to(features.device, features.dtype)
        return super().__call__(features * kept, generator, queries)

    def moments(self, features: Tensor, queries: int = 1) -> tuple[Tensor, Tensor]:
        """Return the mean (N, D) and the variance (D,) of releases, with that of the mask."""
        rate = self.settings.rate
        by_mask = rate * (1 - rate) * features.square().mean(0)
        return (1 - rate) * features, (by_mask + self.std**2) / queries

    def misfit(self, features: Tensor, released: Tensor, queries: int = 1) -> Tensor:
        """Return -2 s^2 times the log-likelihood of the mean of n releases with unknown masks.

        For each feature this is a mixture over the number j of releases that have it,

            p(z~ | z) = sum_j Binomial(j; n, 1 - rate) N(z~; j z / n, s^2),  s = noise_std / sqrt(n)

        with a noise_std of at least `FLOOR`.
        """
        variance = max(self.noise_std, FLOOR) ** 2 / queries
        count = torch.arange(queries + 1, device=features.device, dtype=features.dtype)
        count = count[:, None, None]
        errors = (released.flatten(1) - count / queries * features.flatten(1)).square()
        terms = _log_binomial(count, queries, 1 - self.settings.rate) - errors / (2 * variance)
        return -2 * variance * terms.logsumexp(0).sum(1)

    def leakage(self, features: Tensor, labels: Tensor) -> float:
        """Estimate the bound for features (N, D) with 1 - rate of their variance.

        The mask m is independent of the image x, so I(x; z~) <= I(x; z~, m) = I(x; z~ | m), which
        for one mask is at most `sum_k pi_k (-log pi_k + 1/2 log |I + M Sigma_k M / s^2|)` with
        M = diag(m). Since M^2 = M, the determinant is `|I + S M S / s^2|` with the root S of
        Sigma_k. Its logarithm is concave in M, so its mean over masks is at most its value at the
        mean mask (1 - rate) I.
        """
        return leakage_estimate(math.sqrt(1 - self.settings.rate) * features, labels, self.std)


def _log_binomial(count: Tensor, n: int, p: float) -> Tensor:
    ways: Tensor = math.lgamma(n + 1) - torch.lgamma(count + 1) - torch.lgamma(n - count + 1)
    # xlogy(0, 0) is 0, so p = 1 needs no special case.
    failure: Tensor = torch.special.xlogy(n - count, 1 - p)
    return ways + count * math.log(p) + failure
