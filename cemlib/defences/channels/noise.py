"""Gaussian noise alone: z~ = z + N(0, noise_std^2 I).

Source: Xia et al., CVPR 2025 (the noise of the conditional-entropy bound). `noise_std` is a
standard deviation.

What it costs and how it fails: noise protects as far as the spread of the features is small next to
it, so on its own it costs as much accuracy as privacy it gives; an encoder trained freely spreads
its features until the noise is harmless. Averaging n releases divides it by sqrt(n).
"""

from dataclasses import dataclass

from cemlib.defences.channels.base import Channel


@dataclass(frozen=True)
class GaussianNoise(Channel):
    """Gaussian noise of `noise_std`, and nothing else."""
