"""Carry out one round of collaborative labelling, with all parties in this process.

The messages are the same bytes that `cemlib.labelling.roles` sends over sockets;
docs/labelling_protocol.md describes the round.
"""

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling.errors import LabellingError, ShareError
from cemlib.labelling.messages import Round
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.setting import Setting
from cemlib.labelling.sharing import Keys, generate, split

__all__ = ["Keys", "Setting", "aggregate", "deal"]


def deal(setting: Setting) -> Keys:
    """Return fresh keys; the dealer's primes are not kept."""
    return split(generate(setting.key_bits), setting.participants)


def aggregate(
    votes: NDArray[np.int64],
    setting: Setting,
    keys: Keys | None = None,
    noise: np.random.Generator | None = None,
) -> NDArray[np.float64]:
    """Return the noisy tallies (queries, classes) of class indices (queries, participants).

    `keys` from `deal` may serve many rounds; None deals new ones. The generator `noise` is for
    repeatable studies; without it the operating system draws the noise, as always for masks and
    blindings.

    Raises:
        LabellingError: if votes, keys and setting do not fit together.
    """
    number = setting.participants
    if votes.ndim != 2 or votes.shape[1] != number or not len(votes):
        raise LabellingError(f"votes: expected shape (queries, {number}), got {votes.shape}")
    keys = deal(setting) if keys is None else keys
    if len(keys.shares) != number:
        raise ShareError(f"keys: {len(keys.shares)} shares for {number} participants")
    drawn = None if noise is None else noise.integers(0, 2**63 - 1, number).tolist()
    secrets = zip(keys.shares, votes.T, drawn or [None] * number, strict=True)
    round_ = Round(keys.public, setting, len(votes))
    participants = [Participant(round_, *own) for own in secrets]
    aggregator = Aggregator(round_)
    exchange(aggregator, participants, [participant.vote() for participant in participants])
    return aggregator.counts()


def exchange(
    aggregator: Aggregator, participants: list[Participant], sent: list[bytes]
) -> list[bytes]:
    """Pass on the votes and the request, in the order of shares; return the partial decryptions."""
    for index, message in enumerate(sent):
        aggregator.receive_vote(index, message)
    request = aggregator.request()
    parts = [participant.partial(request) for participant in participants]
    for index, message in enumerate(parts):
        aggregator.receive_partial(index, message)
    return parts
