"""Encode and decode the messages of a round.

A message is its kind (1 byte), round (32 bytes) and sender (2 bytes), followed by its body. Numbers
are big-endian and of fixed width. A receiver knows the length of each kind, and rejects any other
length, kind, round or sender before it looks at a number. Nothing is pickled, and nothing in a
message determines how much memory is allocated.

A vote is a ballot followed by the plain part as 64-bit integers. A ballot is the ciphertexts and
an HMAC-SHA256 over round, sender and ciphertexts, whose key the aggregator does not have. A request
to decrypt holds all ballots: the participants check them and multiply the ciphertexts themselves,
so the aggregator alone cannot have anything decrypted but the sums of this round.
"""

import hashlib
import hmac
import secrets
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling.errors import LabellingError, MessageError
from cemlib.labelling.packing import plaintext_count
from cemlib.labelling.paillier import PublicKey, check_ciphertext
from cemlib.labelling.setting import SCALE, Setting

HEADER = 1 + 32 + 2
TAG = 32  # bytes of an HMAC-SHA256
AGGREGATOR = 0xFFFF
MOST_BYTES = 1 << 30

Numbers: TypeAlias = tuple[int, ...]


class Kind(IntEnum):
    """The kinds of messages."""

    VOTE = 1
    REQUEST = 2
    PARTIAL = 3


@dataclass(frozen=True)
class Round:
    """One round of labelling, whose `digest` every message holds.

    `images_digest` is empty where all parties are in one process, and have the same images.
    """

    public: PublicKey
    setting: Setting
    queries: int
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    images_digest: str = ""

    def __post_init__(self) -> None:
        if self.public.bits != self.setting.key_bits:
            raise LabellingError(
                f"key_bits: {self.setting.key_bits} in the setting, {self.public.bits} in the key"
            )
        if self.queries < 1 or max(map(self.size, Kind)) > MOST_BYTES:
            raise LabellingError(
                f"queries: {self.queries} must be at least 1 and every message below 1 GiB"
            )

    @cached_property
    def digest(self) -> bytes:
        """Return the SHA-256 of everything that the parties must agree on."""
        setting = sorted(asdict(self.setting).items())
        agreed = (self.public.fingerprint, self.nonce, setting, self.queries, self.images_digest)
        return hashlib.sha256(repr(agreed).encode()).digest()

    @property
    def ciphertexts(self) -> int:
        """Return the number of ciphertexts that hold the counters of all queries."""
        return plaintext_count(self.setting, self.queries)

    def size(self, kind: Kind) -> int:
        """Return the length of a message of this kind, in bytes."""
        participants, counters = self.setting.participants, self.queries * self.setting.classes
        ballot = self.numbers_bytes + TAG
        body = {
            Kind.VOTE: ballot + 8 * counters,
            Kind.REQUEST: participants * ballot,
            Kind.PARTIAL: self.numbers_bytes,
        }
        return HEADER + body[kind]

    @property
    def numbers_bytes(self) -> int:
        """Return the length of one participant's ciphertexts, in bytes."""
        return self.ciphertexts * self.public.ciphertext_bytes


def encode(round_: Round, kind: Kind, sender: int, numbers: Numbers = ()) -> bytes:
    """Return a message of numbers: partial decryptions, or the beginning of a vote or request."""
    width = round_.public.ciphertext_bytes
    header = bytes([kind]) + round_.digest + sender.to_bytes(2, "big")
    return header + b"".join(number.to_bytes(width, "big") for number in numbers)


def encode_vote(
    round_: Round, sender: int, mac_key: str, numbers: Numbers, plain: NDArray[np.int64]
) -> bytes:
    """Return the vote message with a participant's ciphertexts and its plain part."""
    content = encode(round_, Kind.VOTE, sender, numbers)
    return content + _tag(mac_key, content) + plain.astype(">i8").tobytes()


def decode_vote(round_: Round, sender: int, data: bytes) -> tuple[bytes, NDArray[np.int64]]:
    """Return the ballot, whose tag only participants can check, and the plain part (queries, k).

    Raises:
        MessageError: if it is not this sender's vote in this round, a number is not a unit mod n^2,
            or the plain part is out of range.
    """
    what, size = f"vote of participant {sender}", round_.numbers_bytes
    body = _body(round_, Kind.VOTE, sender, data, what)
    _numbers(round_, body[:size], what)
    return body[: size + TAG], _plain(round_, body[size + TAG :], what)


def decode_request(round_: Round, mac_key: str, data: bytes) -> list[Numbers]:
    """Return every participant's ciphertexts; `partial_decryption` checks their products.

    Raises:
        MessageError: if it is not a request of this round, or a ballot in it is not its sender's.
    """
    what, size = "request of the aggregator", round_.numbers_bytes
    body, found = _body(round_, Kind.REQUEST, AGGREGATOR, data, what), []
    for sender in range(round_.setting.participants):
        ballot = body[sender * (size + TAG) :][: size + TAG]
        tag = _tag(mac_key, encode(round_, Kind.VOTE, sender) + ballot[:size])
        if not hmac.compare_digest(tag, ballot[size:]):
            raise MessageError(f"{what}: participant {sender} did not send this in this round")
        found.append(_read(round_, ballot[:size]))
    return found


def decode_partial(round_: Round, sender: int, data: bytes) -> Numbers:
    """Return the partial decryptions in `data`; raise MessageError as `decode_vote` does."""
    what = f"partial of participant {sender}"
    return _numbers(round_, _body(round_, Kind.PARTIAL, sender, data, what), what)


def _body(round_: Round, kind: Kind, sender: int, data: bytes, what: str) -> bytes:
    """Return what follows the header of a message of this kind and round from this sender."""
    if len(data) != round_.size(kind):
        raise MessageError(f"{what}: expected {round_.size(kind)} bytes, got {len(data)}")
    if data[0] != kind or data[33:HEADER] != sender.to_bytes(2, "big"):
        raise MessageError(f"{what}: this is another kind of message, or another's")
    if data[1:33] != round_.digest:
        raise MessageError(f"{what}: belongs to another round")
    return data[HEADER:]


def _read(round_: Round, data: bytes) -> Numbers:
    width = round_.public.ciphertext_bytes
    return tuple(int.from_bytes(data[at : at + width], "big") for at in range(0, len(data), width))


def _numbers(round_: Round, data: bytes, what: str) -> Numbers:
    numbers = _read(round_, data)
    for number in numbers:
        check_ciphertext(round_.public, number, what)
    return numbers


def _tag(mac_key: str, content: bytes) -> bytes:
    return hmac.digest(bytes.fromhex(mac_key), content, "sha256")


def _plain(round_: Round, data: bytes, what: str) -> NDArray[np.int64]:
    plain = np.frombuffer(data, ">i8").astype(np.int64)
    setting = round_.setting
    most = 2 * (SCALE << setting.mask_bits)
    if plain.min() < -most or plain.max() > most:
        raise MessageError(f"{what}: a plain part is larger than any mask with its noise")
    plain.flags.writeable = False
    return plain.reshape(round_.queries, setting.classes)
