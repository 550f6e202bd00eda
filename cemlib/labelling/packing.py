"""Turn votes into plaintexts: masks, noise, and several counters in one plaintext.

A participant encrypts u = x + v and sends t = v + e in the clear, where x is the vote, v the mask
and e the noise, all in steps of 2^-12 of a vote; docs/labelling_protocol.md says why. A plaintext
is sum_j u_j 2^(w j). No sum of N counters reaches 2^w (`Setting.slot_bits`), so the sum of N
plaintexts is the plaintext of the sums; s slots stay below n because s w <= bits - 1.
"""

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling.errors import LabellingError, MessageError
from cemlib.labelling.setting import SCALE, Setting


def draw_masks(setting: Setting, queries: int) -> NDArray[np.int64]:
    """Draw masks (queries, classes) in grid steps, uniform in [0, 2^(b + 12)), by `secrets`."""
    words = _random_words(setting, queries)
    bits = np.uint64((SCALE << setting.mask_bits) - 1)
    return (words & bits).astype(np.int64)


def draw_noise(
    setting: Setting, queries: int, generator: np.random.Generator | None
) -> NDArray[np.int64]:
    """Draw one participant's noise (queries, classes) in grid steps: N(0, sigma^2 / N), rounded.

    A generator makes a study repeatable; without one, the noise is the normal quantile of
    (k + 1/2) / 2^52, with 52 bits k from the operating system. (With 53, the largest would round
    to 1, of infinite quantile.)
    """
    if generator is None:
        from scipy.special import ndtri

        normal = ndtri(((_random_words(setting, queries) >> np.uint64(12)) + 0.5) / 2.0**52)
    else:
        normal = generator.standard_normal((queries, setting.classes))
    steps: NDArray[np.float64] = np.rint(normal * setting.share_std * SCALE)
    return steps.astype(np.int64)


def _random_words(setting: Setting, queries: int) -> NDArray[np.uint64]:
    """Return 64 random bits of the operating system for each counter."""
    words = np.frombuffer(secrets.token_bytes(8 * queries * setting.classes), np.uint64)
    return words.reshape(queries, setting.classes)


def plaintext_count(setting: Setting, queries: int) -> int:
    """Return the number of plaintexts that hold the counters of all queries."""
    return -(-setting.classes * queries // setting.slots)


def pack(setting: Setting, counters: NDArray[np.int64]) -> list[int]:
    """Return the plaintexts of counters (queries, classes), each counter in [0, largest]."""
    if counters.min() < 0 or counters.max() > setting.largest:
        raise LabellingError(f"packing: counters must be in [0, {setting.largest}]")
    padded = np.pad(counters.ravel(), (0, -counters.size % setting.slots))
    parts = padded.reshape(-1, setting.slots).tolist()
    width = setting.slot_bits
    return [sum(value << width * j for j, value in enumerate(part)) for part in parts]


def unpack(setting: Setting, plaintexts: Sequence[int], queries: int) -> NDArray[np.int64]:
    """Return the counters (queries, classes); raise MessageError if they cannot be honest sums."""
    due = plaintext_count(setting, queries)
    if len(plaintexts) != due:
        raise MessageError(f"packing: expected {due} plaintexts, got {len(plaintexts)}")
    width, slots, sent = setting.slot_bits, setting.slots, setting.classes * queries
    mask = (1 << width) - 1
    found = [p >> width * j & mask for p in plaintexts for j in range(slots)]
    counters = np.array(found, np.int64)
    if counters[sent:].any() or any(plaintext >> width * slots for plaintext in plaintexts):
        raise MessageError("packing: a plaintext is longer than its counters")
    if counters.max() > setting.largest:
        raise MessageError("packing: a counter is larger than any sum of votes and masks")
    return counters[:sent].reshape(queries, setting.classes)
