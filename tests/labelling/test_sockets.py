"""Parties over TLS: lost, unknown and malicious ones are detected, and the others are told.

Parties that misbehave write their messages to blocking sockets themselves.
"""

import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest
from deployed import (
    HOST,
    IMAGES,
    NEEDS_OPENSSL,
    SECONDS,
    SETTING,
    TALLIES,
    TWO_NAMES,
    Caller,
    Parties,
    framed,
)

from cemlib.labelling import channels
from cemlib.labelling.dealing import write_keys
from cemlib.labelling.errors import REQUESTER, DroppedOutError, LabellingError, MessageError
from cemlib.labelling.messages import Kind
from cemlib.labelling.queries import SHAPE
from cemlib.records.files import FileError

pytestmark = NEEDS_OPENSSL
ALONE = pytest.mark.parametrize("running", [0.1], indirect=True)  # the test is the aggregator


@ALONE
@pytest.mark.parametrize("seconds", [SECONDS, 1.0], ids=["closed", "silent"])
def test_a_participant_says_that_the_aggregator_is_gone(running: Parties, seconds: float) -> None:
    with socket.create_server((HOST, 0)) as listener:
        (part,) = running.honest(0, port=listener.getsockname()[1], seconds=seconds)
        with listener.accept()[0] as raw:
            if seconds == SECONDS:
                raw.close()
            with pytest.raises(
                LabellingError, match=r"aggregator at .* is gone, or ended the round"
            ):
                part.result(SECONDS)


@ALONE
def test_a_participant_refuses_a_request_of_another_round(running: Parties) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(running.keys / "aggregator.pem")
    round_ = running.seat("aggregator").round(IMAGES, bytes(16))
    with socket.create_server((HOST, 0)) as listener:
        (part,) = running.honest(0, port=listener.getsockname()[1])
        with server.wrap_socket(listener.accept()[0], server_side=True) as channel:
            head = SHAPE.pack(*IMAGES.shape) + bytes(16) + round_.digest
            channel.sendall(framed(head) + framed(IMAGES.tobytes()))
            due = 4 + round_.size(Kind.VOTE)
            assert len(channel.makefile("rb").read(due)) == due
            channel.sendall(framed(bytes([Kind.REQUEST]) + bytes(round_.size(Kind.REQUEST) - 1)))
            with pytest.raises(MessageError, match="request of the aggregator: "):
                part.result(SECONDS)


@pytest.mark.parametrize("size", [0, 40])
def test_who_leaves_before_the_vote_is_named_at_once(running: Parties, size: int) -> None:
    asking, (other,) = running.asking(), running.honest(0)
    with running.caller("participant-2"):  # who has not voted yet is not taken for gone
        with running.caller("participant-1") as caller:
            party = caller.joins(1)
            caller.send(framed(party.vote())[:size])
        with pytest.raises(DroppedOutError, match="votes: nothing from participant-1;") as caught:
            running.done.result(SECONDS / 2)
    assert caught.value.gone == (1,)
    for each in (other, asking):  # they are not left waiting
        with pytest.raises(LabellingError, match="is gone, or ended the round"):
            each.result(SECONDS)
    assert (running.ledgers / "0.txt").read_text() == ""  # and it costs them no images


def test_who_leaves_after_the_vote_is_named_at_once(running: Parties) -> None:
    running.asking()
    running.honest(0, 2)
    with running.caller("participant-1") as caller:
        party = caller.joins(1)
        caller.send(framed(party.vote()))
        caller.receive(party.round.size(Kind.REQUEST))
    with pytest.raises(DroppedOutError, match="decryption: nothing from participant-1;"):
        running.done.result(SECONDS / 2)


def test_garbage_from_a_participant_is_refused(running: Parties) -> None:
    message = "expected a message of .* bytes, got 1195725856"
    running.asking()
    running.honest(0, 2)
    with running.caller("participant-1") as caller:
        caller.joins(1)
        caller.send(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(MessageError, match=f"participant.1: .*{message}"):
            running.done.result(SECONDS)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "requester: expected a message of 16 bytes, got 1195725856"),
        (framed(SHAPE.pack(2**31, 3, 2**31, 2**31)), "requester: expected images of 1 byte"),
        (framed(SHAPE.pack(0, 3, 2, 2)), "requester: expected images of 1 byte"),
        (
            framed(SHAPE.pack(1, 3, 2, 2)) + framed(bytes(13)),
            "expected a message of 12 bytes, got 13",
        ),
    ],
    ids=["HTTP", "huge", "empty", "longer"],
)
def test_garbage_from_the_requester_is_refused(running: Parties, sent: bytes, message: str) -> None:
    running.honest(0, 1, 2)
    with running.caller("requester") as caller:
        caller.send(sent)
        with pytest.raises(MessageError, match=message):
            running.done.result(SECONDS)


@pytest.mark.parametrize(
    ("running", "phase"),
    [(2.0, "votes|images"), (SECONDS, "votes"), (SECONDS, "tallies")],
    indirect=["running"],
)
def test_a_requester_that_leaves_is_named(running: Parties, phase: str) -> None:
    parts = running.honest(0, 1)
    with running.caller("participant-2") as last:
        with running.caller("requester") as caller:
            if phase in ("votes", "tallies"):
                caller.send(framed(SHAPE.pack(*IMAGES.shape)) + framed(IMAGES.tobytes()))
                party = last.joins(2)
            if phase == "tallies":
                last.send(framed(party.vote()))
                request = last.receive(party.round.size(Kind.REQUEST))
                last.send(framed(party.partial(request)))
                caller.receive(8 * IMAGES.shape[0] * SETTING.classes)
        if phase == "votes":
            last.send(framed(party.vote()))
        with pytest.raises(DroppedOutError, match=f"({phase}): nothing from requester;") as caught:
            running.done.result(SECONDS)
    assert caught.value.gone == (REQUESTER,)
    assert ("start a new one with the same keys" in str(caught.value)) == (phase != "tallies")
    if phase == "tallies":
        assert [part.result(SECONDS) for part in parts] == [2, 2]


def test_strangers_are_sent_away_and_the_round_goes_on(running: Parties, elsewhere: Path) -> None:
    name = "participant-1"
    with socket.create_connection((HOST, running.port)) as raw:
        raw.sendall(b"not TLS at all" * 50)
    assert Caller(running.keys, None, running.port).sent_away()
    assert running.caller(name, place=elsewhere).sent_away()  # of another authority
    assert running.caller("aggregator").sent_away()
    assert running.caller(TWO_NAMES).sent_away()
    with pytest.raises(OSError, match=r"(?i)version|EOF|reset"):
        running.caller(name, maximum_version=ssl.TLSVersion.TLSv1_2)
    running.honest(0, 1, 2)
    assert running.tallied()


@pytest.fixture
def long_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may take longer than the round."""
    monkeypatch.setattr(channels, "HANDSHAKE_SECONDS", 10 * SECONDS)


@pytest.mark.usefixtures("long_handshakes")  # before `running` listens
def test_who_calls_and_says_nothing_keeps_nobody_waiting(running: Parties) -> None:
    with ExitStack() as calls:
        for _ in range(4):
            calls.enter_context(socket.create_connection((HOST, running.port)))
        running.honest(0, 1, 2)
        assert running.tallied()


def test_the_newest_connection_of_a_party_counts(running: Parties) -> None:
    with running.caller("participant-2"):
        pass
    first = running.caller("participant-1")
    with running.caller("participant-1") as second:
        assert first.sent_away()
        running.honest(0, 2)
        asking = running.asking()
        own = second.joins(1)
        second.send(framed(own.vote()))
        request = second.receive(own.round.size(Kind.REQUEST))
        second.send(framed(own.partial(request)))
        assert asking.result(SECONDS).tolist() == TALLIES


def test_a_requester_that_has_sent_its_images_may_return(running: Parties) -> None:
    """More than a buffer of them, so that the aggregator has not read them to their end."""
    first = running.caller("requester")
    first.send(framed(SHAPE.pack(2, 3, 400, 400)) + framed(bytes(960_000)))
    asking = running.asking()
    assert first.sent_away()
    running.honest(0, 1, 2)
    assert asking.result(SECONDS).tolist() == TALLIES


@ALONE
@pytest.mark.parametrize("name", ["aggregator", "participant-1"])
def test_a_false_aggregator_is_told_nothing(running: Parties, elsewhere: Path, name: str) -> None:
    """Neither one of another authority, nor a participant that listens in its place."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    place = elsewhere if name == "aggregator" else running.keys
    server.load_cert_chain(place / f"{name}.pem")
    with socket.create_server((HOST, 0)) as listener:
        (part,) = running.honest(0, port=listener.getsockname()[1])
        raw = listener.accept()[0]
        with pytest.raises(OSError, match=r"(?i)alert|EOF|reset"):
            server.wrap_socket(raw, server_side=True).recv(1)
        with pytest.raises(LabellingError, match="certificate verify failed"):
            part.result(SECONDS)


@pytest.mark.parametrize("running", [1.5], indirect=True)
def test_who_does_not_come_is_named(running: Parties) -> None:
    running.honest(0)
    with pytest.raises(DroppedOutError, match="from requester, participant-1, participant-2;"):
        running.done.result(SECONDS)


@pytest.mark.parametrize("size", [40, None], ids=["half a vote", "a whole vote"])
@pytest.mark.parametrize("running", [2.0], indirect=True)
def test_who_is_silent_is_gone_at_the_deadline(running: Parties, size: int | None) -> None:
    running.asking()
    (other,) = running.honest(0)
    with running.caller("participant-1") as second, running.caller("participant-2") as third:
        second.send(framed(second.joins(1).vote())[:size])
        third.send(framed(third.joins(2).vote()))
        fault = "decryption: nothing from participant-1, participant-2;"
        with pytest.raises(DroppedOutError, match=fault if size is None else "votes: .*-1;"):
            running.done.result(SECONDS)
    if size is None:
        assert other.result(SECONDS) == 2
    else:
        with pytest.raises(LabellingError, match="is gone"):
            other.result(SECONDS)


def test_keys_are_read_by_this_user_alone_and_never_written_over(keys: Path) -> None:
    names = {"public", "authority", "aggregator", "requester", TWO_NAMES}
    names |= {f"{kind}-{i}" for kind in ("participant", "share") for i in range(3)}
    assert {file.stem for file in keys.iterdir()} == names
    assert {file.stat().st_mode & 0o777 for file in keys.iterdir()} == {0o600}
    assert keys.stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileError, match="exists already"):
        write_keys(keys, SETTING)
