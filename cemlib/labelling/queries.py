"""The images uint8 (Q, C, H, W) of a round: their shape, their digests, and a ledger of them.

A ledger file lists the SHA-256 of each image whose votes a participant has helped to decrypt.
"""

import fcntl
import hashlib
import math
import os
import re
import struct
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling.errors import LabellingError, MessageError
from cemlib.records.files import FileError, unwritable

Images: TypeAlias = NDArray[np.uint8]
SHAPE = struct.Struct(">4I")
MOST_BYTES = 1 << 26  # largest size of the images of a round


def encode_shape(images: Images) -> bytes:
    """Return the shape as four 32-bit numbers; raise LabellingError for unsuitable images."""
    if images.dtype != np.uint8 or images.ndim != 4 or not 0 < images.size <= MOST_BYTES:
        raise LabellingError(
            f"images: expected uint8 (queries, channels, height, width) of at most 64 MiB, got"
            f" {images.dtype} of shape {images.shape}; split a larger set into several rounds"
        )
    return SHAPE.pack(*images.shape)


def decode_shape(data: bytes) -> tuple[int, int, int, int]:
    """Return the shape; raise MessageError if such images are empty or too large."""
    shape: tuple[int, int, int, int] = SHAPE.unpack(data)
    if not 0 < math.prod(shape) <= MOST_BYTES:
        raise MessageError(f"requester: expected images of 1 byte to 64 MiB, got shape {shape}")
    return shape


def digests(images: Images) -> list[str]:
    """Return the SHA-256 of each image with its shape, in hexadecimal."""
    shape = SHAPE.pack(1, *images.shape[1:])
    return [hashlib.sha256(shape + image.tobytes()).hexdigest() for image in images]


def enter(ledger: Path, new: list[str], most: int | None = None, *, dry: bool = False) -> None:
    """Add digests to a ledger, created if it is missing, and flush them; `dry` only checks them.

    Raises:
        LabellingError: if one is in it already, or it would hold more than `most`; none is added.
        FileError: if the file is not a ledger, or cannot be written.
    """
    try:
        with ledger.open("a+", encoding="ascii", errors="replace") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            _check(ledger, file.read(), new, most)
            file.write("" if dry else "".join(f"{digest}\n" for digest in new))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise unwritable(ledger, None, error) from error


def _check(ledger: Path, text: str, new: list[str], most: int | None) -> None:
    if not re.fullmatch("([0-9a-f]{64}\n)*", text):
        advice = "if a crash cut off its last line, delete that line: nobody could read those votes"
        raise FileError(f"{ledger}: not a ledger; {advice}")
    seen = set(text.split())
    if again := len(new) - len({*new} - seen):
        raise LabellingError(
            f"{ledger}: {again} of {len(new)} images are in it already, or were sent twice"
        )
    if most is not None and len(seen) + len(new) > most:
        raise LabellingError(
            f"{ledger}: holds {len(seen)} of at most {most} images; {len(new)} more do not fit"
        )
