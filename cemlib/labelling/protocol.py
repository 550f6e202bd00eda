"""Carry out one round of collaborative labelling, with all parties in this process.

    participant i:  Enc(x_i + v_i)  and  v_i + e_i,  e_i ~ N(0, sigma^2 / N)
    aggregator:     c = prod_i Enc(x_i + v_i),   t = sum_i (v_i + e_i)
    participants:   c^(s_i), from which m = sum_i x_i + sum_i v_i
    aggregator:     m - t = sum_i x_i - sum_i e_i,   whose noise is N(0, sigma^2)

The messages are the bytes that `cemlib.labelling.sockets` sends; here they are handed over. Votes,
not features, are what is protected: see docs/labelling_protocol.md for what is not.

When a participant is gone, the round is void and those left begin anew (`restart`). Without its
share the old ciphertexts can never be opened, so the void round has released nothing: not even its
sums. Those left are dealt a new key, draw new masks and new noise (sigma^2 is shared among fewer),
and vote in a new round, whose name differs, so that late messages of the old one are refused. The
old shares are to be destroyed: should the lost one turn up, the old sums could still be opened, and
the same votes would be released twice, with two draws of noise, which the privacy accounting has
not counted.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling.errors import LabellingError, ShareError
from cemlib.labelling.messages import Round
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.setting import Setting
from cemlib.labelling.sharing import Keys, generate, split

__all__ = ["Cost", "Keys", "Setting", "Tally", "aggregate", "deal", "noise_seeds"]


@dataclass(frozen=True)
class Cost:
    """Hold what a round took, all participants together: CPU seconds of this process, and bytes.

    Attributes:
        encrypt_seconds: drawing masks and noise, blinding and encryption.
        decrypt_seconds: the aggregator's products, partial decryptions, and reading the tallies.
        bytes_up: votes and partial decryptions, from all participants to the aggregator.
        ciphertexts: that one participant sent.
    """

    encrypt_seconds: float
    decrypt_seconds: float
    bytes_up: int
    ciphertexts: int


@dataclass(frozen=True)
class Tally:
    """Hold the result of a round.

    Attributes:
        counts: sum of votes + N(0, sigma^2), (queries, classes).
        cost: what it took.
    """

    counts: NDArray[np.float64]
    cost: Cost


def deal(setting: Setting) -> Keys:
    """Return fresh keys; the dealer's primes are gone when it returns."""
    key = generate(setting.key_bits, insecure_for_testing=setting.insecure_for_testing)
    return split(key, setting.participants)


def noise_seeds(setting: Setting, noise: np.random.Generator | None) -> list[int | None]:
    """Return a 63-bit seed for each participant's noise, drawn from one generator, or None each."""
    if noise is None:
        return [None] * setting.participants
    seeds: list[int | None] = noise.integers(0, 2**63 - 1, setting.participants).tolist()
    return seeds


def check_votes(votes: NDArray[np.int64], setting: Setting) -> None:
    """Raise LabellingError unless the votes are class indices (queries, participants)."""
    if votes.ndim != 2 or votes.shape[1] != setting.participants or not len(votes):
        raise LabellingError(
            f"votes: shape {votes.shape} where (queries, {setting.participants}) is due"
        )
    if not np.issubdtype(votes.dtype, np.integer):
        raise LabellingError(f"votes: {votes.dtype} where integer class indices are due")
    if votes.min() < 0 or votes.max() >= setting.classes:
        raise LabellingError(f"votes: must be from 0 to {setting.classes - 1}")


def check_keys(keys: Keys, setting: Setting) -> None:
    """Raise ShareError unless there is a share for each participant of the setting."""
    if len(keys.shares) != setting.participants:
        raise ShareError(f"keys: {len(keys.shares)} shares for {setting.participants} participants")


def aggregate(
    votes: NDArray[np.int64],
    setting: Setting,
    keys: Keys | None = None,
    noise: np.random.Generator | None = None,
) -> Tally:
    """Return the noisy tallies of votes.

    Args:
        votes: class indices (queries, participants).
        setting: the round's setting.
        keys: from `deal`, to be used over many rounds; None deals new ones.
        noise: generator of the noise, for a study that is to be repeated: the same state gives the
            same tallies. None takes the system's randomness, as masks and blindings always do.

    Raises:
        LabellingError: votes, keys and setting do not fit together.
    """
    check_votes(votes, setting)
    keys = deal(setting) if keys is None else keys
    check_keys(keys, setting)
    round_ = Round.start(keys.public, setting, len(votes))
    start = time.process_time()
    participants = [
        Participant(round_, share, votes[:, share.index], seed)
        for share, seed in zip(keys.shares, noise_seeds(setting, noise), strict=True)
    ]
    sent = [participant.vote() for participant in participants]
    encrypted = time.process_time()
    aggregator = Aggregator(round_)
    parts = open_sums(aggregator, participants, sent)
    seconds = encrypted - start, time.process_time() - encrypted
    bytes_up = sum(map(len, sent + parts))
    assert aggregator.view.counts is not None
    cost = Cost(*seconds, bytes_up, round_.ciphertexts)
    return Tally(aggregator.view.counts, cost)


def open_sums(
    aggregator: Aggregator, participants: list[Participant], sent: list[bytes]
) -> list[bytes]:
    """Carry the votes to the aggregator and its request to all; return their answers.

    Args:
        aggregator: of the round; its view has the tallies afterwards.
        participants: all of the round, in the order of their shares.
        sent: their votes, in the same order.
    """
    for index, message in enumerate(sent):
        aggregator.receive_vote(index, message)
    request = aggregator.request()
    parts = [participant.partial(request) for participant in participants]
    for index, message in enumerate(parts):
        aggregator.receive_partial(index, message)
    aggregator.counts()
    return parts


def remaining(setting: Setting, gone: Iterable[int]) -> tuple[Setting, Keys, list[int]]:
    """Return the setting and new keys of those left, and which participants they are, in order.

    Raises:
        LabellingError: an index is none of a participant, or fewer than two are left.
    """
    lost = set(gone)
    if not lost or not lost <= set(range(setting.participants)):
        raise LabellingError(
            f"gone: {sorted(lost)}, of participants 0 to {setting.participants - 1}"
        )
    left = [index for index in range(setting.participants) if index not in lost]
    smaller = replace(setting, participants=len(left))
    return smaller, deal(smaller), left


def restart(
    votes: NDArray[np.int64],
    setting: Setting,
    gone: Iterable[int],
    noise: np.random.Generator | None = None,
) -> Tally:
    """Return the tallies of a new round among those left, with a new key, masks and noise.

    Args:
        votes: those of the void round (queries, participants); columns of who is gone are not read.
        setting: that of the void round.
        gone: `DroppedOutError.gone`.
        noise: as for `aggregate`.
    """
    check_votes(votes, setting)
    smaller, keys, left = remaining(setting, gone)
    return aggregate(votes[:, left], smaller, keys, noise)
