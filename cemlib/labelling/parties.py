"""The parties of a round, and records of what each of them sees.

A party takes bytes and returns bytes, whether a function call or a socket carries them. Its state
is its view, a frozen record of everything that it has seen.
"""

import math
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling import messages
from cemlib.labelling.errors import DroppedOutError, LabellingError, MessageError, ShareError
from cemlib.labelling.messages import AGGREGATOR, Kind, Numbers, Round
from cemlib.labelling.packing import draw_masks, draw_noise, pack, unpack
from cemlib.labelling.paillier import draw_blinding, encrypt, product
from cemlib.labelling.setting import SCALE, Setting
from cemlib.labelling.sharing import KeyShare, combine, partial_decryption

Integers = NDArray[np.int64]
FAR = 9.0  # standard deviations of the noise: a probability below 1e-18


@dataclass(frozen=True)
class ParticipantView:
    """Everything that participant i sees.

    Attributes:
        round: the public parameters.
        share: its share of the key, with the key of the tags.
        votes: its votes (queries,), class indices.
        masks: its masks v (queries, classes), in grid steps.
        noise: its noise e (queries, classes), in grid steps.
        sent: its own ciphertexts.
        ballots: all participants' ciphertexts, as the aggregator passed them on.
        asked: the products of these, which encrypt sum x + sum v, and which it partially decrypts.
    """

    round: Round
    share: KeyShare = field(repr=False)
    votes: Integers = field(repr=False)
    masks: Integers = field(repr=False)
    noise: Integers = field(repr=False)
    sent: Numbers = ()
    ballots: tuple[Numbers, ...] = ()
    asked: Numbers = ()


@dataclass(frozen=True)
class AggregatorView:
    """Everything that the aggregator sees.

    Attributes:
        round: the public parameters.
        ballots: Enc(x + v) of every participant with its tag, as bytes.
        plain: v + e (queries, classes) of every participant, in grid steps.
        partials: partial decryptions of the sums by every participant.
        sums: sum x + sum v (queries, classes), in grid steps, once decrypted.
        counts: the result, sum x - sum e (queries, classes), in votes.
    """

    round: Round
    ballots: dict[int, bytes] = field(default_factory=dict)
    plain: dict[int, Integers] = field(default_factory=dict)
    partials: dict[int, Numbers] = field(default_factory=dict)
    sums: Integers | None = None
    counts: NDArray[np.float64] | None = None


class Participant:
    """A participant, who votes once in a round, and once gives its part of the decryption."""

    def __init__(
        self, round_: Round, share: KeyShare, votes: Integers, noise_seed: int | None = None
    ) -> None:
        """Draw masks and noise for votes (queries,), which are class indices.

        A study sets the seed of the noise; with None the operating system draws it.
        """
        setting = round_.setting
        if share.fingerprint != round_.public.fingerprint or share.of != setting.participants:
            raise ShareError(f"share {share.index}: not of this round's key and participants")
        fits = votes.shape == (round_.queries,) and np.issubdtype(votes.dtype, np.integer)
        if not fits or votes.min() < 0 or votes.max() >= setting.classes:
            raise LabellingError(
                f"participant {share.index}: needs {round_.queries} votes from 0 to"
                f" {setting.classes - 1}, as integers"
            )
        generator = None if noise_seed is None else np.random.default_rng(noise_seed)
        self.view = ParticipantView(
            round_,
            share,
            votes=np.array(votes, np.int64),  # a copy: a view would keep everybody's votes alive
            masks=draw_masks(setting, round_.queries),
            noise=draw_noise(setting, round_.queries, generator),
        )
        self._blindings: list[int] = []

    def prepare(self) -> None:
        """Draw the blindings in advance, which is the expensive part of `vote`."""
        round_ = self.view.round
        self._blindings = [
            draw_blinding(round_.public, round_.setting.blinding) for _ in range(round_.ciphertexts)
        ]

    def vote(self) -> bytes:
        """Return the vote message, with Enc(x + v) and v + e."""
        view, round_ = self.view, self.view.round
        if view.sent:
            raise LabellingError(f"participant {view.share.index}: has voted in this round")
        if not self._blindings:
            self.prepare()
        one_hot = np.eye(round_.setting.classes, dtype=np.int64)[view.votes]
        plaintexts = pack(round_.setting, one_hot * SCALE + view.masks)
        sent = tuple(encrypt(round_.public, m, self._blindings.pop()) for m in plaintexts)
        self.view = replace(view, sent=sent)
        own = view.share.index, view.share.mac_key
        return messages.encode_vote(round_, *own, sent, view.masks + view.noise)

    def partial(self, request: bytes) -> bytes:
        """Return this participant's part of the decryption of the sums of all ballots.

        It answers a single request in a round, and multiplies the ciphertexts itself.

        Raises:
            MessageError: if the request does not hold all participants' ballots of this round.
        """
        view, round_ = self.view, self.view.round
        if not view.sent or view.asked:
            raise LabellingError(
                f"participant {view.share.index}: decrypts once in a round, after its vote"
            )
        ballots = messages.decode_request(round_, view.share.mac_key, request)
        if ballots[view.share.index] != view.sent:
            raise MessageError("request of the aggregator: it lacks the ballot of this participant")
        columns = zip(*ballots, strict=True)
        asked = tuple(product(column, round_.public.n_squared) for column in columns)
        self.view = replace(view, ballots=tuple(ballots), asked=asked)
        parts = tuple(partial_decryption(round_.public, view.share, c) for c in asked)
        return messages.encode(round_, Kind.PARTIAL, view.share.index, parts)


class Aggregator:
    """The aggregator, who collects the votes, requests their decryption, and reads the tallies."""

    def __init__(self, round_: Round) -> None:
        self.view = AggregatorView(round_)

    def receive_vote(self, sender: int, data: bytes) -> None:
        """Accept a participant's vote; raise MessageError if it is malformed or not their first."""
        self._expect(sender, self.view.ballots)
        ballot, plain = messages.decode_vote(self.view.round, sender, data)
        self.view = replace(
            self.view,
            ballots={**self.view.ballots, sender: ballot},
            plain={**self.view.plain, sender: plain},
        )

    def request(self) -> bytes:
        """Return the request with all ballots; raise DroppedOutError unless all have voted."""
        view = self.view
        self._check_all(view.ballots, "votes")
        ballots = (view.ballots[sender] for sender in sorted(view.ballots))
        return messages.encode(view.round, Kind.REQUEST, AGGREGATOR) + b"".join(ballots)

    def receive_partial(self, sender: int, data: bytes) -> None:
        """Accept a participant's part of the decryption."""
        self._expect(sender, self.view.partials)
        numbers = messages.decode_partial(self.view.round, sender, data)
        self.view = replace(self.view, partials={**self.view.partials, sender: numbers})

    def counts(self) -> NDArray[np.float64]:
        """Return the noisy tallies (queries, classes).

        Raises:
            DroppedOutError: if a part of the decryption is missing.
            MessageError: if honest parties cannot have produced these tallies.
        """
        view, round_ = self.view, self.view.round
        self._check_all(view.partials, "decryption")
        columns = zip(*view.partials.values(), strict=True)
        parts = [dict(zip(view.partials, column, strict=True)) for column in columns]
        number = round_.setting.participants
        plaintexts = [combine(round_.public, part, number) for part in parts]
        sums = unpack(round_.setting, plaintexts, round_.queries)
        steps = sums - np.sum(list(view.plain.values()), axis=0)
        counts: NDArray[np.float64] = steps / SCALE
        self.view = replace(view, sums=sums, counts=counts)
        _check_plausible(counts, round_.setting)
        return counts

    def _expect(self, sender: int, seen: Container[int]) -> None:
        if not 0 <= sender < self.view.round.setting.participants:
            raise MessageError(f"participant {sender}: no such participant")
        if sender in seen:
            raise MessageError(f"participant {sender}: has sent this message before")

    def _check_all(self, seen: Iterable[int], phase: str) -> None:
        gone = set(range(self.view.round.setting.participants)) - set(seen)
        if gone:
            raise DroppedOutError(gone, phase)


def _check_plausible(counts: NDArray[np.float64], setting: Setting) -> None:
    """Reject tallies that do not add up to N votes, or have below 0 or above N votes for a class.

    Noise of up to `FAR` standard deviations is allowed, which honest parties practically never
    exceed. Votes that are moved or added within the noise go undetected.
    """
    n, sigma = setting.participants, setting.noise_std
    room = FAR * sigma + 0.5
    votes = counts.sum(axis=1)
    odd = abs(votes - n) > FAR * sigma * math.sqrt(setting.classes) + 0.5
    odd |= ((counts < -room) | (counts > n + room)).any(axis=1)
    if odd.any():
        query = int(odd.argmax())
        raise MessageError(
            f"tallies of image {query} are impossible: {votes[query]:.1f} votes from {n}"
            f" participants, or fewer than 0 or more than {n} for a class; a vote or a decryption"
            " part was changed, and the round is void; these tallies are known to the aggregator,"
            " so they count in the privacy accounting, and the images cannot be asked about again"
        )
