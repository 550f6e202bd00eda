"""Random streams: every source of randomness has a name, and its own seed derived from the run's.

Because a stream's seed depends only on (seed, name, step), changing what one stream consumes never
shifts another, and a resumed run needs no generator state: epoch 7 draws the same numbers whether
or not the process was restarted before it.
"""

import hashlib

import torch


def derive(seed: int, stream: str, step: int = 0) -> int:
    """Return the 63-bit seed of a named stream at a step (an epoch, say)."""
    digest = hashlib.sha256(f"{seed}/{stream}/{step}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(
    seed: int, stream: str, step: int = 0, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Return a generator at the start of the named stream's step; its numbers differ by device."""
    return torch.Generator(device).manual_seed(derive(seed, stream, step))
