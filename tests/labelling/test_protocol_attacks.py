"""The attacks of docs/labelling_protocol.md that go through messages: what fails, what succeeds."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from small_round import KEYS, SETTING, TALLIES, VOTES, parties, voted

from cemlib.labelling.errors import MessageError
from cemlib.labelling.messages import HEADER, TAG, Kind, Numbers, encode, encode_vote
from cemlib.labelling.packing import pack, unpack
from cemlib.labelling.paillier import encrypt, product
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.protocol import aggregate, exchange
from cemlib.labelling.setting import SCALE
from cemlib.labelling.sharing import combine

N_SQUARED = KEYS.public.n_squared


def with_numbers(aggregator: Aggregator, ballot: bytes, numbers: Numbers) -> bytes:
    """A ballot with other ciphertexts and the tag that it had."""
    return encode(aggregator.round, Kind.VOTE, 0, numbers)[HEADER:] + ballot[-TAG:]


def refused(
    aggregator: Aggregator, party: Participant, ballots: dict[int, bytes], why: str
) -> None:
    """An aggregator with these ballots asks for their tallies."""
    aggregator.ballots = ballots
    with pytest.raises(MessageError, match=why):
        party.partial(aggregator.request())
    assert party.asked == ()


def test_the_aggregator_cannot_use_free_slots_to_open_single_votes() -> None:
    """Participant 0's counters once more in the next slots, which no tag covers.

    A request could be this before participants multiplied the ballots themselves.
    """
    aggregator, everybody = voted()
    shift = 1 << SETTING.slot_bits
    numbers = tuple(c * pow(c, shift, N_SQUARED) % N_SQUARED for c in everybody[0].sent)
    ballots = aggregator.ballots
    spoilt = ballots | {0: with_numbers(aggregator, ballots[0], numbers)}
    refused(aggregator, everybody[1], spoilt, "participant 0 did not send this in this round")


def test_the_aggregator_cannot_put_a_neutral_ballot_in_anothers_place() -> None:
    aggregator, everybody = voted()
    ballots = aggregator.ballots
    neutral = tuple(encrypt(KEYS.public, 0) for _ in everybody[0].sent)
    for place, ballot in {
        "0": with_numbers(aggregator, ballots[0], neutral),
        "2": ballots[3],  # a whole ballot, but another's
    }.items():
        why = f"participant {place} did not send this"
        refused(aggregator, everybody[1], ballots | {int(place): ballot}, why)


def test_a_round_cannot_open_a_ciphertext_of_another_round_under_the_same_key() -> None:
    first, _ = voted()
    second, everybody = voted()
    theirs = first.ballots
    refused(second, everybody[1], second.ballots | {0: theirs[0]}, "participant 0 did not")
    with pytest.raises(MessageError, match="belongs to another round"):
        everybody[1].partial(first.request())
    # And where a round's name is used a second time, a participant still knows its own ballot.
    again = Participant(first.round, KEYS.shares[1], VOTES[:, 1])
    again.vote()
    refused(first, again, theirs, "it lacks the ballot of this participant")


def test_an_aggregator_who_calls_a_participant_gone_has_two_tallies() -> None:
    """A limit that the documentation names: without noise, the difference is one's votes."""
    exact = replace(SETTING, noise_std=0.0)
    aggregator, everybody = parties(exact)
    exchange(aggregator, everybody, [party.vote() for party in everybody])
    fewer = replace(exact, participants=3)
    difference = aggregator.counts() - aggregate(VOTES[:, [0, 1, 3]], fewer)
    assert np.array_equal(difference, np.eye(3)[VOTES[:, 2]])


def test_with_one_participant_the_aggregator_opens_a_vote() -> None:
    """A limit that the documentation names: participant 3 votes last, and cancels all but 0."""
    aggregator, everybody = parties()
    for index in range(3):
        aggregator.receive_vote(index, everybody[index].vote())
    known = [party.sent for party in everybody[1:3]]
    numbers = tuple(pow(product(c, N_SQUARED), -1, N_SQUARED) for c in zip(*known, strict=True))
    last, round_ = everybody[3], aggregator.round
    last.sent, plain = numbers, last.masks + last.noise
    aggregator.receive_vote(3, encode_vote(round_, 3, last.share.mac_key, numbers, plain))
    for index, party in enumerate(everybody):
        aggregator.receive_partial(index, party.partial(aggregator.request()))
    columns = zip(*(aggregator.partials[i] for i in range(4)), strict=True)
    opened = [combine(KEYS.public, dict(enumerate(column)), 4) for column in columns]
    found = unpack(SETTING, opened, len(VOTES)) - aggregator.plain[0]
    victim = everybody[0]
    assert np.array_equal(found + victim.noise, 4096 * np.eye(3, dtype=np.int64)[victim.votes])


def forged(party: Participant, cast: NDArray[np.int64]) -> bytes:
    """The vote message of a participant that casts so many votes for each class of every image."""
    round_ = party.round
    counters = np.tile(cast * SCALE, (round_.queries, 1)) + party.masks
    numbers = tuple(encrypt(round_.public, m) for m in pack(round_.setting, counters))
    party.sent, own = numbers, (party.share.index, party.share.mac_key)
    return encode_vote(round_, *own, numbers, party.masks + party.noise)


@pytest.mark.parametrize("votes", [[1000, 0, 0], [0, 0, 0], [2, 2, 2], [16, -15, 0]])
def test_tallies_that_nobody_honest_produces_are_refused(votes: list[int]) -> None:
    """Without noise every one, and with it what exceeds it: here 9 standard deviations of 2."""
    for noise_std in (0.0, 2.0):
        aggregator, everybody = parties(replace(SETTING, noise_std=noise_std))
        sent = [forged(everybody[0], np.array(votes)), *(p.vote() for p in everybody[1:])]
        exchange(aggregator, everybody, sent)
        if noise_std == 0 or max(votes) > 100:
            with pytest.raises(
                MessageError, match=r"of image 0 are impossible: .* the round is void"
            ):
                aggregator.counts()
        else:
            aggregator.counts()


@pytest.mark.parametrize("votes", [3, 1000])
def test_a_changed_part_adds_votes_within_the_noise(votes: int) -> None:
    """A limit that the documentation names: nothing shows that a part was changed."""
    aggregator, everybody = voted()
    added = SCALE * votes * (1 - (1 << SETTING.slot_bits))  # to class 0, from class 1
    for index, party in enumerate(everybody):
        part = party.partial(aggregator.request())
        if index == 2:
            first, *others = (pow(c, party.share.value, N_SQUARED) for c in party.asked)
            changed = first * pow(1 + KEYS.public.n, added, N_SQUARED) % N_SQUARED
            part = encode(aggregator.round, Kind.PARTIAL, index, (changed, *others))
        aggregator.receive_partial(index, part)
    if votes == 1000:
        with pytest.raises(MessageError, match="tallies of image 0"):
            aggregator.counts()
        return
    counts = aggregator.counts()
    noise = sum(party.noise for party in everybody) / 4096
    expected = np.array(TALLIES) - noise
    expected[0] += [votes, -votes, 0]
    assert np.array_equal(counts, expected)
