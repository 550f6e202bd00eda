"""Adversarial representation learning: the encoder is trained against a decoder.

Source: the defence "ARL" (also "gan_adv") that Xia et al., CVPR 2025, combine with conditional
entropy; the idea is from Edwards and Storkey, "Censoring representations with an adversary", ICLR
2016. With the decoder's reconstructions r = D(z~) of the images x, and S the mean over the batch of
SSIM(r, x) with zero padding,

    D minimises -S,    the encoder's loss gets + scale relu(S - threshold)

Both gradients come from one forward and one backward pass of D: the parameters of D get the
gradient of -S, and the gradient at the input of D is multiplied by -scale, or by 0 if S is at most
the threshold.

How it fails: a deeper decoder, or one trained on the finished encoder, can reconstruct more. A
decoder that learns too slowly keeps S small and the defence idle.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.config import defences as config
from cemlib.defences.penalties.base import Penalty, Shape
from cemlib.metrics import ssim
from cemlib.models.decoder import Decoder
from cemlib.numerics.optim import Adam, scaled_gradient

WEIGHT_DECAY = 1e-4  # as in the published attack


class AdversarialDecoder(Penalty):
    """A decoder of releases trained on SSIM, and the encoder's penalty for what it reconstructs.

    Raises:
        ValueError: if doubling the sides of the features does not give those of the images.
    """

    settings: config.Arl
    optimiser: Adam

    def __init__(self, settings: config.Arl, *, image_shape: Shape, feature_shape: Shape) -> None:
        super().__init__(settings, image_shape=image_shape, feature_shape=feature_shape)
        decoder = Decoder(
            feature_shape[0],
            image_shape,
            blocks=settings.blocks,
            width=settings.width,
            doublings=_doublings(image_shape, feature_shape),
        )
        self.decoder = decoder.to(memory_format=torch.channels_last)
        self.optimiser = Adam(self.decoder.parameters(), weight_decay=WEIGHT_DECAY)

    def penalty(self, images: Tensor, labels: Tensor, features: Tensor, released: Tensor) -> Tensor:  # noqa: ARG002 - one signature for all
        """Return `scale` relu(S - threshold); its backward pass also gives D the gradient of -S."""
        scale, threshold = self.settings.scale, self.settings.threshold
        pull = released.new_zeros(())  # set once S is known
        answers = self.decoder(
            scaled_gradient(released, pull).contiguous(memory_format=torch.channels_last)
        )
        similarity = ssim(answers, images).mean()
        reached = similarity.detach()
        pull.copy_(reached > threshold).mul_(-scale)
        # The second term is exactly 0, with the gradient of -S.
        return scale * F.relu(reached - threshold) + (reached - similarity)

    def step(self) -> None:
        """Update the decoder."""
        self.optimiser.step(self.settings.lr)
        self.optimiser.zero_grad()


def _doublings(image_shape: Shape, feature_shape: Shape) -> int:
    doublings = round(math.log2(image_shape[-1] / feature_shape[-1]))
    doubled = tuple(side * 2**doublings for side in feature_shape[1:])
    if doublings < 0 or doubled != image_shape[1:]:
        raise ValueError(
            f"arl: repeated doubling of {feature_shape[1]}x{feature_shape[2]} features does not"
            f" give {image_shape[1]}x{image_shape[2]} images; cut after pooling of even sides"
        )
    return doublings
