"""The release channel: what stands between the client's features and everyone else.

Whatever the channel does, it does to the server's input in training, validation and test, and to
the attacker's input in the attacker's training and test. Nothing else is ever released.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class GaussianNoise:
    """Additive Gaussian noise, z~ = z + N(0, std^2 I); `std` is a standard deviation.

    Xia et al., CVPR 2025 (the noise of the conditional-entropy bound). Zero releases z itself.
    """

    std: float

    def __call__(self, features: Tensor, generator: torch.Generator) -> Tensor:
        """Release features of any shape with fresh noise from `generator`, on their device."""
        if self.std == 0:
            return features
        noise = torch.randn(features.shape, generator=generator, device=generator.device)
        return features + self.std * noise.to(features.device, features.dtype)
