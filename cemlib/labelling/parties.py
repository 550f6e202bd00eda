"""The parties of a round, which exchange bytes; their attributes are all that each of them sees."""

import math
from collections.abc import Container, Iterable

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


class Participant:
    """A participant, who votes once in a round, and once gives its part of the decryption.

    Attributes:
        round: the public parameters.
        share: its share of the key, with the key of the tags.
        votes: its votes (queries,), class indices.
        masks, noise: its v and e (queries, classes), in grid steps.
        sent: its own ciphertexts.
        ballots: all participants' ciphertexts, as the aggregator passed them on.
        asked: the products of these, which encrypt sum x + sum v, and which it partially decrypts.
    """

    def __init__(
        self, round_: Round, share: KeyShare, votes: Integers, noise_seed: int | None = None
    ) -> None:
        """Draw masks and noise for votes (queries,), class indices; a noise seed is for studies."""
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
        self.round, self.share = round_, share
        self.votes = np.array(votes, np.int64)  # a copy: a view would keep everybody's votes alive
        self.masks = draw_masks(setting, round_.queries)
        self.noise = draw_noise(setting, round_.queries, generator)
        self.sent: Numbers = ()
        self.ballots: tuple[Numbers, ...] = ()
        self.asked: Numbers = ()
        self._blindings: list[int] = []

    def prepare(self) -> None:
        """Draw the blindings in advance, which is the expensive part of `vote`."""
        public, length = self.round.public, self.round.setting.blinding
        self._blindings = [draw_blinding(public, length) for _ in range(self.round.ciphertexts)]

    def vote(self) -> bytes:
        """Return the vote message, with Enc(x + v) and v + e."""
        round_, share = self.round, self.share
        if self.sent:
            raise LabellingError(f"participant {share.index}: has voted in this round")
        if not self._blindings:
            self.prepare()
        one_hot = np.eye(round_.setting.classes, dtype=np.int64)[self.votes]
        plaintexts = pack(round_.setting, one_hot * SCALE + self.masks)
        self.sent = tuple(encrypt(round_.public, m, self._blindings.pop()) for m in plaintexts)
        plain = self.masks + self.noise
        return messages.encode_vote(round_, share.index, share.mac_key, self.sent, plain)

    def partial(self, request: bytes) -> bytes:
        """Return this participant's part of the decryption of the sums of all ballots.

        Raises:
            MessageError: if the request does not hold all participants' ballots of this round.
        """
        round_, share = self.round, self.share
        if not self.sent or self.asked:
            raise LabellingError(
                f"participant {share.index}: decrypts once in a round, after its vote"
            )
        ballots = messages.decode_request(round_, share.mac_key, request)
        if ballots[share.index] != self.sent:
            raise MessageError("request of the aggregator: it lacks the ballot of this participant")
        columns = zip(*ballots, strict=True)
        self.ballots = tuple(ballots)
        self.asked = tuple(product(column, round_.public.n_squared) for column in columns)
        parts = tuple(partial_decryption(round_.public, share, c) for c in self.asked)
        return messages.encode(round_, Kind.PARTIAL, share.index, parts)


class Aggregator:
    """The aggregator, who collects the votes, requests their decryption, and reads the tallies.

    Attributes:
        round: the public parameters.
        ballots: Enc(x + v) of every participant with its tag, as bytes.
        plain: v + e (queries, classes) of every participant, in grid steps.
        partials: partial decryptions of the sums by every participant.
        sums: sum x + sum v (queries, classes), in grid steps, once decrypted.
    """

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self.ballots: dict[int, bytes] = {}
        self.plain: dict[int, Integers] = {}
        self.partials: dict[int, Numbers] = {}
        self.sums: Integers | None = None

    def receive_vote(self, sender: int, data: bytes) -> None:
        """Accept a participant's vote; raise MessageError if it is malformed or not their first."""
        self._expect(sender, self.ballots)
        self.ballots[sender], self.plain[sender] = messages.decode_vote(self.round, sender, data)

    def request(self) -> bytes:
        """Return the request with all ballots; raise DroppedOutError unless all have voted."""
        self._check_all(self.ballots, "votes")
        ballots = (self.ballots[sender] for sender in sorted(self.ballots))
        return messages.encode(self.round, Kind.REQUEST, AGGREGATOR) + b"".join(ballots)

    def receive_partial(self, sender: int, data: bytes) -> None:
        """Accept a participant's part of the decryption."""
        self._expect(sender, self.partials)
        self.partials[sender] = messages.decode_partial(self.round, sender, data)

    def counts(self) -> NDArray[np.float64]:
        """Return the noisy tallies (queries, classes).

        Raises:
            DroppedOutError: if a part of the decryption is missing.
            MessageError: if honest parties cannot have produced these tallies.
        """
        round_ = self.round
        self._check_all(self.partials, "decryption")
        columns = zip(*self.partials.values(), strict=True)
        parts = [dict(zip(self.partials, column, strict=True)) for column in columns]
        number = round_.setting.participants
        plaintexts = [combine(round_.public, part, number) for part in parts]
        self.sums = unpack(round_.setting, plaintexts, round_.queries)
        steps = self.sums - np.sum(list(self.plain.values()), axis=0)
        counts: NDArray[np.float64] = steps / SCALE
        _check_plausible(counts, round_.setting)
        return counts

    def _expect(self, sender: int, seen: Container[int]) -> None:
        if not 0 <= sender < self.round.setting.participants:
            raise MessageError(f"participant {sender}: no such participant")
        if sender in seen:
            raise MessageError(f"participant {sender}: has sent this message before")

    def _check_all(self, seen: Iterable[int], phase: str) -> None:
        gone = set(range(self.round.setting.participants)) - set(seen)
        if gone:
            raise DroppedOutError(gone, phase)


def _check_plausible(counts: NDArray[np.float64], setting: Setting) -> None:
    """Reject tallies that do not add up to N votes, or have below 0 or above N votes for a class.

    Votes that are moved or added within `FAR` standard deviations of the noise go undetected.
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
