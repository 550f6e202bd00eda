"""Encode and decode the messages of a round.

A message is its kind (1 byte), round (32 bytes) and sender (2 bytes), then numbers of fixed width,
big-endian, and in a vote the plain part as 64-bit integers. The round decides the one length that
each kind of message has. A receiver refuses any other length, kind, round or sender before it looks
at a number. Nothing is pickled, and nothing in a message says how much memory to take.
"""

import hashlib
import secrets
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling.errors import LabellingError, MessageError
from cemlib.labelling.packing import plaintext_count
from cemlib.labelling.paillier import PublicKey, check_ciphertext
from cemlib.labelling.setting import Setting

HEADER = 1 + 32 + 2
AGGREGATOR = 0xFFFF
MOST_BYTES = 1 << 30


class Kind(IntEnum):
    """Name the kinds of messages."""

    VOTE = 1
    REQUEST = 2
    PARTIAL = 3


@dataclass(frozen=True)
class Round:
    """Define one round of labelling, which every message names."""

    public: PublicKey
    setting: Setting
    queries: int
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))

    def __post_init__(self) -> None:
        if self.public.bits != self.setting.key_bits:
            raise LabellingError(
                f"key_bits: {self.setting.key_bits} in the setting, {self.public.bits} in the key"
            )
        if self.queries < 1 or self.size(Kind.VOTE) > MOST_BYTES:
            raise LabellingError(
                f"queries: {self.queries} must be at least 1 and a vote below 1 GiB"
            )

    @cached_property
    def name(self) -> bytes:
        """Return the SHA-256 of all that the parties must agree on."""
        setting = sorted(asdict(self.setting).items())
        agreed = (self.public.fingerprint, self.nonce, setting, self.queries)
        return hashlib.sha256(repr(agreed).encode()).digest()

    @property
    def ciphertexts(self) -> int:
        """Return how many ciphertexts hold the counters of all queries."""
        return plaintext_count(self.setting, self.queries)

    def size(self, kind: Kind) -> int:
        """Return the length of a message of this kind, in bytes."""
        numbers = self.ciphertexts * self.public.ciphertext_bytes
        plain = 8 * self.queries * self.setting.classes if kind is Kind.VOTE else 0
        return HEADER + numbers + plain


@dataclass(frozen=True)
class Message:
    """Hold a message that was read; `plain` (queries, classes) is empty unless it is a vote."""

    numbers: tuple[int, ...]
    plain: NDArray[np.int64]


NOTHING: NDArray[np.int64] = np.zeros((0, 0), np.int64)


def encode(
    round_: Round,
    kind: Kind,
    sender: int,
    numbers: tuple[int, ...],
    plain: NDArray[np.int64] = NOTHING,
) -> bytes:
    """Return the bytes of a message."""
    width = round_.public.ciphertext_bytes
    header = bytes([kind]) + round_.name + sender.to_bytes(2, "big")
    body = b"".join(number.to_bytes(width, "big") for number in numbers)
    return header + body + plain.astype(">i8").tobytes()


def decode(round_: Round, kind: Kind, sender: int, data: bytes) -> Message:
    """Return the message in `data`.

    Raises:
        MessageError: it is not a message of this kind and round from this sender, or a number in
            it is no unit mod n^2, or a plain part is out of range.
    """
    who = "the aggregator" if sender == AGGREGATOR else f"participant {sender}"
    what = f"{kind.name.lower()} of {who}"
    if len(data) != round_.size(kind):
        raise MessageError(f"{what}: {len(data)} bytes where {round_.size(kind)} are due")
    if data[0] != kind or data[33:HEADER] != sender.to_bytes(2, "big"):
        raise MessageError(f"{what}: this is another kind of message, or another's")
    if data[1:33] != round_.name:
        raise MessageError(f"{what}: belongs to another round")
    width = round_.public.ciphertext_bytes
    end = HEADER + width * round_.ciphertexts
    starts = range(HEADER, end, width)
    numbers = tuple(int.from_bytes(data[at : at + width], "big") for at in starts)
    for number in numbers:
        check_ciphertext(round_.public, number, what)
    return Message(numbers, _plain(round_, data[end:], what) if kind is Kind.VOTE else NOTHING)


def _plain(round_: Round, data: bytes, what: str) -> NDArray[np.int64]:
    plain = np.frombuffer(data, ">i8").astype(np.int64)
    setting = round_.setting
    most = 2 * (setting.scale << setting.mask_bits)
    if plain.min() < -most or plain.max() > most:
        raise MessageError(f"{what}: a plain part is larger than any mask with its noise")
    plain.flags.writeable = False
    return plain.reshape(round_.queries, setting.classes)
