"""Masks and noise, both whole multiples of one grid step, 2^-12 of a vote.

A participant encrypts u = x + v and sends t = v + e in the clear: x the vote, v the mask, e the
noise.

The mask lies on the noise's grid, not on whole votes: were v a whole number, t would betray e mod
1, and e itself wherever sigma / sqrt(N) is below about half a vote; the aggregator would then know
the noise and read exact tallies. On the grid t is uniform but for its ends.

Statistical distances, v uniform on [0, 2^b) votes: a vote for another class moves two counters by
one vote each, and u with it by 1 - (1 - 2^-b)^2 < 2^(1-b) per query; t tells e from no noise by at
most E|e| 2^-b per counter. A sum over N participants hides at least as well: one unknown mask is
enough.
"""

import secrets

import numpy as np
from numpy.typing import NDArray

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
