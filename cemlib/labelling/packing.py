"""Turn votes into plaintexts: masks, noise, and several counters in one plaintext.

A participant encrypts u = x + v and sends t = v + e in the clear: x the vote, v the mask, e the
noise, all whole multiples of one grid step, 2^-12 of a vote.

The mask lies on the noise's grid, not on whole votes: were v a whole number, t would betray e mod
1, and e itself wherever sigma / sqrt(N) is below about half a vote; the aggregator would then know
the noise and read exact tallies. On the grid t is uniform but for its ends.

Statistical distances, v uniform on [0, 2^b) votes: a vote for another class moves two counters by
one vote each, and u with it by 1 - (1 - 2^-b)^2 < 2^(1-b) per query; t tells e from no noise by at
most E|e| 2^-b per counter. A sum over N participants hides at least as well: one unknown mask is
enough.

A plaintext is sum_j u_j 2^(w j) with counters u_j < 2^w. The sum of N plaintexts is the plaintext
of the sums as long as every sum stays below 2^w, which `Setting.slot_bits` sees to, and s slots of
w bits stay below n as s w <= bits - 1.
"""

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling.errors import LabellingError, MessageError
from cemlib.labelling.setting import Setting


def draw_masks(setting: Setting, queries: int) -> NDArray[np.int64]:
    """Return masks (queries, classes) in grid steps, uniform in [0, 2^(b + 12)), from `secrets`."""
    count = queries * setting.classes
    words = np.frombuffer(secrets.token_bytes(8 * count), np.uint64)
    bits = np.uint64((setting.scale << setting.mask_bits) - 1)
    return (words & bits).astype(np.int64).reshape(queries, setting.classes)


def draw_noise(
    setting: Setting, queries: int, generator: np.random.Generator | None
) -> NDArray[np.int64]:
    """Return one participant's noise (queries, classes) in grid steps, N(0, sigma^2 / N) rounded.

    Args:
        setting: the round's setting.
        queries: how many.
        generator: for a study that is to be repeated; None takes the system's randomness, through
            the normal quantile of 53 random bits.
    """
    shape = (queries, setting.classes)
    normal = _system_normal(shape) if generator is None else generator.standard_normal(shape)
    return np.rint(normal * setting.share_std * setting.scale).astype(np.int64)


def _system_normal(shape: tuple[int, int]) -> NDArray[np.float64]:
    from scipy.special import ndtri

    words = np.frombuffer(secrets.token_bytes(8 * shape[0] * shape[1]), np.uint64)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    quantiles: NDArray[np.float64] = ndtri(uniform).reshape(shape)
    return quantiles


def plaintext_count(setting: Setting, queries: int) -> int:
    """Return how many plaintexts hold the counters of all queries."""
    if setting.packing == "images":
        return -(-setting.classes * queries // setting.slots)
    return -(-setting.classes // setting.slots) * queries


def chunks(setting: Setting, queries: int) -> list[tuple[int, int]]:
    """Return [start, stop) of each plaintext among the counters of all queries, row by row.

    With `label` and `none` every query starts a plaintext of its own.
    """
    row = setting.classes if setting.packing != "images" else setting.classes * queries
    step = setting.slots
    return [
        (first + start, first + min(start + step, row))
        for first in range(0, setting.classes * queries, row)
        for start in range(0, row, step)
    ]


def pack(setting: Setting, counters: NDArray[np.int64]) -> list[int]:
    """Return the plaintexts of counters (queries, classes), each counter in [0, largest]."""
    flat: list[int] = counters.ravel().tolist()
    if min(flat) < 0 or max(flat) > setting.largest:
        raise LabellingError(f"packing: counters must be in [0, {setting.largest}]")
    width = setting.slot_bits
    return [
        sum(value << width * j for j, value in enumerate(flat[start:stop]))
        for start, stop in chunks(setting, len(counters))
    ]


def unpack(setting: Setting, plaintexts: Sequence[int], queries: int) -> NDArray[np.int64]:
    """Return the counters (queries, classes) of plaintexts.

    Raises:
        MessageError: a plaintext holds what no sum of honest messages can be.
    """
    spans = chunks(setting, queries)
    if len(plaintexts) != len(spans):
        raise MessageError(f"packing: {len(plaintexts)} plaintexts where {len(spans)} are due")
    width, flat = setting.slot_bits, []
    for plaintext, (start, stop) in zip(plaintexts, spans, strict=True):
        if plaintext >> width * (stop - start):
            raise MessageError("packing: a plaintext is longer than its counters")
        flat += [plaintext >> width * j & (1 << width) - 1 for j in range(stop - start)]
    if max(flat) > setting.largest:
        raise MessageError("packing: a counter is larger than any sum of votes and masks")
    return np.array(flat, np.int64).reshape(queries, setting.classes)
