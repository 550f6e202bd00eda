"""Damages to the content of a file."""

import random


def flipped(content: bytes, draws: random.Random) -> bytes:
    """Flip one bit, anywhere in the file."""
    bit = draws.randrange(8 * len(content))
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def cut(content: bytes, draws: random.Random) -> bytes:
    return content[: draws.randrange(len(content))]
