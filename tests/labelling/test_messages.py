"""What arrives malformed, twice, or from elsewhere is refused, and the round says so by name."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cemlib.labelling.errors import LabellingError, MessageError, ShareError
from cemlib.labelling.messages import HEADER, Round, decode_vote
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.protocol import Keys, Setting, deal

SETTING = Setting(3, 2, noise_std=2.0, key_bits=256, insecure_for_testing=True)
KEYS = deal(SETTING)
ROUND = Round(KEYS.public, SETTING, 2)
VOTES = np.array([0, 1])


def participant(index: int, keys: Keys = KEYS, round_: Round = ROUND) -> Participant:
    return Participant(round_, keys.shares[index], VOTES, 0)


VOTE = participant(0).vote()
WIDTH = KEYS.public.ciphertext_bytes


def with_number(value: int) -> bytes:
    return VOTE[:HEADER] + value.to_bytes(WIDTH, "big") + VOTE[HEADER + WIDTH :]


def with_plain(value: int) -> bytes:
    return VOTE[:-8] + value.to_bytes(8, "big", signed=True)


SPOILT: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "0 bytes where"),
    "short": (lambda: VOTE[:-1], "bytes where"),
    "long": (lambda: VOTE + b"\0", "bytes where"),
    "kind": (lambda: bytes([2]) + VOTE[1:], "another kind"),
    "round": (lambda: VOTE[:1] + bytes(32) + VOTE[33:], "another round"),
    "sender": (lambda: participant(1).vote(), "another's"),
    "zero": (lambda: with_number(0), r"not in \[1, n\^2\)"),
    "too large": (lambda: with_number(KEYS.public.n_squared), r"not in \[1, n\^2\)"),
    "no unit": (lambda: with_number(KEYS.public.n), "shares a factor"),
    "plain": (lambda: with_plain(2**62), "plain part"),
    "negative plain": (lambda: with_plain(-(2**62)), "plain part"),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_a_spoilt_vote_is_refused_and_its_sender_named(fault: str) -> None:
    spoil, message = SPOILT[fault]
    aggregator = Aggregator(ROUND)
    with pytest.raises(MessageError, match=f"vote of participant 0: .*{message}"):
        aggregator.receive_vote(0, spoil())
    assert aggregator.view == Aggregator(ROUND).view


@given(data=st.binary(min_size=0, max_size=len(VOTE)))
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(MessageError):
        decode_vote(ROUND, 0, data)


@given(data=st.binary(min_size=len(VOTE) - HEADER, max_size=len(VOTE) - HEADER))
def test_garbage_under_a_right_header_is_refused_or_read_as_it_stands(data: bytes) -> None:
    message = VOTE[:HEADER] + data
    try:
        ballot, plain = decode_vote(ROUND, 0, message)
    except MessageError:
        return
    assert message[:HEADER] + ballot + plain.astype(">i8").tobytes() == message


def test_a_second_vote_is_refused() -> None:
    aggregator, party = Aggregator(ROUND), participant(0)
    vote = party.vote()
    aggregator.receive_vote(0, vote)
    with pytest.raises(MessageError, match="participant 0: has sent this message before"):
        aggregator.receive_vote(0, vote)
    with pytest.raises(LabellingError, match="has voted"):
        party.vote()


@pytest.mark.parametrize("index", [-1, 3])
def test_a_vote_of_nobody_is_refused(index: int) -> None:
    with pytest.raises(MessageError, match="there is none of this number"):
        Aggregator(ROUND).receive_vote(index, VOTE)


def voted() -> tuple[Aggregator, list[Participant], bytes]:
    """The parties when all have voted, and the request."""
    aggregator, everybody = Aggregator(ROUND), [participant(i) for i in range(3)]
    for index, party in enumerate(everybody):
        aggregator.receive_vote(index, party.vote())
    return aggregator, everybody, aggregator.request()


def test_a_part_sent_twice_is_refused() -> None:
    aggregator, everybody, request = voted()
    part = everybody[0].partial(request)
    aggregator.receive_partial(0, part)
    with pytest.raises(MessageError, match="before"):
        aggregator.receive_partial(0, part)
    with pytest.raises(MessageError, match="another's"):
        aggregator.receive_partial(1, part)


def test_a_part_of_another_ciphertext_is_found_out() -> None:
    aggregator, everybody, request = voted()
    for index, party in enumerate(everybody):
        aggregator.receive_partial(index, party.partial(request))
    wrong = everybody[0].view.sent
    spoilt = {**aggregator.view.partials, 2: wrong}
    aggregator.view = replace(aggregator.view, partials=spoilt)
    with pytest.raises(ShareError, match="do not fit"):
        aggregator.counts()


def test_a_participant_decrypts_once_and_only_after_its_vote() -> None:
    _, everybody, request = voted()
    with pytest.raises(LabellingError, match="decrypts once in a round, after its vote"):
        participant(0).partial(request)
    everybody[0].partial(request)
    with pytest.raises(LabellingError, match="decrypts once"):
        everybody[0].partial(request)


def test_messages_of_a_void_round_do_not_enter_the_next() -> None:
    following = Round(KEYS.public, SETTING, 2)
    with pytest.raises(MessageError, match="belongs to another round"):
        Aggregator(following).receive_vote(0, VOTE)


def test_a_share_of_another_key_or_number_does_not_take_part() -> None:
    other = deal(SETTING)
    with pytest.raises(ShareError, match="share 1: not of this round's key"):
        participant(1, keys=other)
    with pytest.raises(ShareError, match="not of this round's key and participants"):
        participant(1, keys=deal(replace(SETTING, participants=2)))


@pytest.mark.parametrize("queries", [0, 10**9])
def test_rounds_of_no_or_too_many_queries_are_refused(queries: int) -> None:
    with pytest.raises(LabellingError, match="queries"):
        Round(KEYS.public, replace(SETTING, packing="images"), queries)


def test_votes_out_of_range_are_refused_by_the_participant_itself() -> None:
    for votes in (np.array([0, 2]), np.array([-1, 0]), np.array([0])):
        with pytest.raises(LabellingError, match="participant 0: needs 2 votes from 0 to 1"):
            Participant(ROUND, KEYS.shares[0], votes)
