"""Malformed, repeated and foreign messages are rejected, and the errors name the sender."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_round import KEYS, SETTING, parties, voted

from cemlib.labelling.errors import LabellingError, MessageError, ShareError
from cemlib.labelling.messages import HEADER, Round, decode_vote
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.protocol import deal

(AGGREGATOR, (FIRST, SECOND, *_)) = parties()
ROUND, VOTE = AGGREGATOR.round, FIRST.vote()
WIDTH, BODY = KEYS.public.ciphertext_bytes, len(VOTE) - HEADER


def with_number(value: int) -> bytes:
    return VOTE[:HEADER] + value.to_bytes(WIDTH, "big") + VOTE[HEADER + WIDTH :]


def with_plain(value: int) -> bytes:
    return VOTE[:-8] + value.to_bytes(8, "big", signed=True)


SPOILT = {
    "empty": (b"", "bytes, got 0"),
    "short": (VOTE[:-1], "bytes, got"),
    "long": (VOTE + b"\0", "bytes, got"),
    "kind": (bytes([2]) + VOTE[1:], "another kind"),
    "round": (parties()[1][0].vote(), "belongs to another round"),
    "sender": (SECOND.vote(), "another's"),
    "no unit": (with_number(KEYS.public.n), "shares a factor"),
    "plain": (with_plain(2**62), "plain part"),
    "negative plain": (with_plain(-(2**62)), "plain part"),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_a_spoilt_vote_is_refused_and_its_sender_named(fault: str) -> None:
    spoilt, message = SPOILT[fault]
    aggregator = Aggregator(ROUND)
    with pytest.raises(MessageError, match=f"vote of participant 0: .*{message}"):
        aggregator.receive_vote(0, spoilt)
    assert vars(aggregator) == vars(Aggregator(ROUND))


@given(
    st.binary(max_size=len(VOTE))
    | st.binary(min_size=BODY, max_size=BODY).map(lambda body: VOTE[:HEADER] + body)
)
def test_garbage_is_refused_or_read_as_it_stands(data: bytes) -> None:
    try:
        ballot, plain = decode_vote(ROUND, 0, data)
    except MessageError:
        return
    assert data[:HEADER] + ballot + plain.astype(">i8").tobytes() == data


def test_a_second_vote_is_refused() -> None:
    aggregator = Aggregator(ROUND)
    aggregator.receive_vote(0, VOTE)
    with pytest.raises(MessageError, match="participant 0: has sent this message before"):
        aggregator.receive_vote(0, VOTE)
    with pytest.raises(LabellingError, match="has voted"):
        FIRST.vote()


@pytest.mark.parametrize("index", [-1, 4])
def test_a_vote_of_nobody_is_refused(index: int) -> None:
    with pytest.raises(MessageError, match="no such participant"):
        Aggregator(ROUND).receive_vote(index, VOTE)


def test_a_part_is_given_once_after_the_vote_and_taken_once() -> None:
    aggregator, everybody = voted()
    request = aggregator.request()
    part = everybody[0].partial(request)
    for party in (everybody[0], parties()[1][0]):
        with pytest.raises(LabellingError, match="decrypts once in a round, after its vote"):
            party.partial(request)
    aggregator.receive_partial(0, part)
    with pytest.raises(MessageError, match="before"):
        aggregator.receive_partial(0, part)
    with pytest.raises(MessageError, match="another's"):
        aggregator.receive_partial(1, part)


def test_a_part_of_another_ciphertext_is_found_out() -> None:
    aggregator, everybody = voted()
    for index, party in enumerate(everybody):
        aggregator.receive_partial(index, party.partial(aggregator.request()))
    aggregator.partials[2] = everybody[0].sent
    with pytest.raises(ShareError, match="do not fit"):
        aggregator.counts()


def test_a_share_of_another_key_or_number_does_not_take_part() -> None:
    for share in (deal(SETTING).shares[1], replace(KEYS.shares[1], of=3)):
        with pytest.raises(ShareError, match="share 1: not of this round's key and participants"):
            Participant(ROUND, share, SECOND.votes)


@pytest.mark.parametrize("queries", [0, 10**9])
def test_rounds_of_no_or_too_many_queries_are_refused(queries: int) -> None:
    with pytest.raises(LabellingError, match="queries"):
        Round(KEYS.public, SETTING, queries)


@pytest.mark.parametrize("votes", [[0, 3, 0], [-1, 0, 0], [0]])
def test_votes_out_of_range_are_refused_by_the_participant_itself(votes: list[int]) -> None:
    with pytest.raises(LabellingError, match="participant 0: needs 3 votes from 0 to 2"):
        Participant(ROUND, KEYS.shares[0], np.array(votes))
