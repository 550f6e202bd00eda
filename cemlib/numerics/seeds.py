"""Random streams: every source of randomness has a name, and a seed derived from the run's.

A stream's seed depends only on (seed, name, step). So draws from one stream never shift another,
and a resumed run needs no generator state.
"""

import hashlib

import torch


def derive(seed: int, stream: str, step: int = 0) -> int:
    """Return the 63-bit seed of a named stream at a step, such as an epoch."""
    digest = hashlib.sha256(f"{seed}/{stream}/{step}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(
    seed: int, stream: str, step: int = 0, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Return a new generator for a step of a named stream; its numbers depend on the device."""
    return torch.Generator(device).manual_seed(derive(seed, stream, step))
