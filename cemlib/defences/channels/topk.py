"""Top-k pruning: of each sample only the features of largest magnitude are released.

    z~ = z * 1[ |z_d| among the k largest of the sample ] + N(0, noise_std^2 I),   k = ceil(keep D)

Source: known from the compression of split learning, for instance Zheng, Chen, Lyu and Yao,
"Reducing communication for split learning by randomized top-k sparsification", IJCAI 2023; here it
is a defence. Of equal magnitudes at the border only as many stay as are needed for exactly k.

What it costs and how it fails: small features are lost to the server, and only kept ones carry a
gradient in training. It is deterministic: which features are kept is itself a message about the
image, of up to log(D choose k) nats, and asking again averages the noise and nothing else.
Training can move what matters into the kept features, so it need not hide much.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cemlib.defences.channels.base import Channel


@dataclass(frozen=True)
class TopK(Channel):
    """Per-sample pruning by magnitude, then Gaussian noise.

    Attributes:
        keep: share of the features that is released, in (0, 1]; rounded up, and at least one.
    """

    keep: float = 0.2

    def shape(self, features: Tensor) -> Tensor:
        """Set all but the k largest magnitudes of each sample of (N, ...) to 0."""
        _, kept = self._largest(features.flatten(1))
        return features * kept.view_as(features)

    def misfit(self, features: Tensor, released: Tensor, queries: int = 1) -> Tensor:  # noqa: ARG002
        """Return squared errors where the release was kept, squared excess elsewhere.

        The attacker takes the k largest magnitudes of the release for the kept set. On the others
        all that the release says is that `|z_d|` lies below the smallest kept magnitude t: the true
        likelihood is 0 beyond that and flat before it, and neither leads anywhere. Its relaxation
        `relu(|z_d| - t)^2` is as flat where the constraint holds, and pulls back where it does not.
        Where the noise reaches t, the kept set is partly mistaken. Arguments as for `Channel`.
        """
        z, seen = features.flatten(1), released.flatten(1)
        magnitudes, kept = self._largest(seen)
        excess = (z.abs() - magnitudes[:, -1:]).relu()
        return torch.where(kept, seen - z, excess).square().sum(1)

    def _largest(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return the k largest magnitudes of each row (N, D), falling, and where they are."""
        # A product such as 0.07 * 100 exceeds the whole number that it stands for.
        count = max(1, math.ceil(round(self.keep * flat.shape[1], 9)))
        magnitudes, places = flat.abs().topk(count)
        kept = torch.zeros_like(flat, dtype=torch.bool).scatter(1, places, True)
        return magnitudes, kept
