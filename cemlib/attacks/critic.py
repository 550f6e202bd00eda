"""The critic of a Wasserstein GAN, and the penalty that keeps its slope near 1.

Gulrajani, Ahmed, Arjovsky, Dumoulin and Courville, "Improved training of Wasserstein GANs", NeurIPS
2017. A critic of slope at most 1 that tells real from fake best measures how far they are apart:

    distance = mean critic(real) - mean critic(fake)
    penalty  = mean (|d critic(m) / d m| - 1)^2,   m on the line between a real and a fake image

It assumes that a sample's score depends on that sample alone: no batch normalisation.
"""

import torch
from torch import Tensor, nn

SLOPE = 0.2  # of the leaky ReLUs


class Critic(nn.Module):
    """Three convolutions 5x5 with stride 2 and a linear layer: images to scores.

    Args:
        image_shape: (C, H, W) of the images.
        width: Channels of the first convolution; the others have twice and four times as many.
    """

    def __init__(self, image_shape: tuple[int, int, int], width: int) -> None:
        super().__init__()
        channels, height, side = image_shape
        layers: list[nn.Module] = []
        for out in (width, 2 * width, 4 * width):
            height, side = (height + 1) // 2, (side + 1) // 2
            layers += [nn.Conv2d(channels, out, 5, stride=2, padding=2)]
            if height * side > 1:  # one pixel has no variance to normalise by
                layers += [nn.InstanceNorm2d(out, affine=True)]
            layers += [nn.LeakyReLU(SLOPE)]
            channels = out
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * side, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Map (B, C, H, W) to unbounded scores (B,), higher for what looks real."""
        scores: Tensor = self.layers(images)
        return scores.squeeze(1)


def gradient_penalty(critic: nn.Module, real: Tensor, fake: Tensor, share: Tensor) -> Tensor:
    """Return the mean squared deviation of the critic's slope from 1; its weights get a gradient.

    Args:
        critic: Images to scores (B,), each of its own image alone.
        real: (B, C, H, W).
        fake: Of the same shape; nothing flows back into it.
        share: (B, 1, 1, 1) in [0, 1], of the real image in each mixture.
    """
    mixed = torch.lerp(fake.detach(), real, share).requires_grad_()
    (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    lengths: Tensor = slope.flatten(1).norm(dim=1)
    return (lengths - 1).square().mean()
