"""Gaussian noise alone: z~ = z + N(0, noise_std^2 I).

Source: Xia et al., CVPR 2025 (the noise of the conditional-entropy bound).

How it fails: an encoder trained without a surrogate spreads its features until the noise is
harmless. The mean of n releases has sqrt(n) times less noise.
"""

from cemlib.defences.channels.base import Channel


class GaussianNoise(Channel):
    """Gaussian noise of `noise_std`, and nothing else."""

    plain = True
