"""Top-k pruning: only the features of largest magnitude of each sample are released.

    z~ = z * 1[ |z_d| among the k largest of the sample ] + N(0, noise_std^2 I),   k = ceil(keep D)

Source: known from compression in split learning, for instance Zheng, Chen, Lyu and Yao, "Reducing
communication for split learning by randomized top-k sparsification", IJCAI 2023; here it is a
defence. Exactly k features are kept, even if magnitudes are equal.

How it fails: the set of kept features itself carries up to log(D choose k) nats about the image,
and several releases average only the noise. In training only kept features have a gradient, and
important information can move into them.
"""

import math

import torch
from torch import Tensor

from cemlib.config.defences import TopKChannel
from cemlib.defences.channels.base import Channel


class TopK(Channel):
    """Per-sample pruning by magnitude, then Gaussian noise."""

    settings: TopKChannel

    def shape(self, features: Tensor) -> Tensor:
        """Set all but the k largest magnitudes of each sample of (N, ...) to 0."""
        _, kept = self._largest(features.flatten(1))
        return features * kept.view_as(features)

    def misfit(self, features: Tensor, released: Tensor, queries: int = 1) -> Tensor:  # noqa: ARG002
        """Return squared errors of kept features, and squared excesses of the others.

        The attacker takes the k largest magnitudes of the release for the kept set, which is partly
        wrong if the noise reaches the smallest of them, t. Of another feature it knows only that
        `|z_d|` is below t. This likelihood is constant below t and 0 above, which gives no
        gradient; its relaxation `relu(|z_d| - t)^2` has one above t.
        """
        z, seen = features.flatten(1), released.flatten(1)
        magnitudes, kept = self._largest(seen)
        excess = (z.abs() - magnitudes[:, -1:]).relu()
        return torch.where(kept, seen - z, excess).square().sum(1)

    def _largest(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return the k largest magnitudes of each row (N, D), descending, and a mask of them."""
        # Without rounding, ceil(0.07 * 100) would be 8.
        count = max(1, math.ceil(round(self.settings.keep * flat.shape[1], 9)))
        magnitudes, places = flat.abs().topk(count)
        kept = torch.zeros_like(flat, dtype=torch.bool).scatter(1, places, True)
        return magnitudes, kept
