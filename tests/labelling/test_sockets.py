"""Parties over TLS: the same tallies, and who is gone, strange or malicious is found out."""

import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from cemlib.labelling import channels
from cemlib.labelling.channels import HOST, Deadline, accept_all, connect, receive, send
from cemlib.labelling.errors import DroppedOutError, LabellingError, MessageError
from cemlib.labelling.messages import Kind, Round
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.process import collect
from cemlib.labelling.protocol import Setting, aggregate, deal, remaining
from cemlib.labelling.sockets import (
    aggregate_over_sockets,
    heard,
    result,
    start_aggregator,
    start_participant,
    stop,
)

pytest.importorskip("cryptography")

SETTING = Setting(3, 4, noise_std=3.0, key_bits=256, insecure_for_testing=True)
VOTES = np.array([[0, 1, 1], [3, 2, 3]])
KEYS = deal(SETTING)
SECONDS = 30.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("parties")
    channels.make_certificates(made, 3)
    return made


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates with the same names, of another authority."""
    made = tmp_path_factory.mktemp("elsewhere")
    channels.make_certificates(made, 3)
    return made


class Running:
    """An aggregator in a thread of this process, on a real port."""

    def __init__(self, folder: Path, seconds: float = SECONDS) -> None:
        self.folder = folder
        self.round = Round.start(KEYS.public, SETTING, len(VOTES))
        self.aggregator = Aggregator(self.round)
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.deadline = Deadline(seconds)
        self._pool = ThreadPoolExecutor(4)
        self.done: Future[None] = self._pool.submit(
            collect, self.aggregator, self.listener, folder, self.deadline
        )

    def party(self, index: int) -> Participant:
        return Participant(self.round, KEYS.shares[index], VOTES[:, index], index)

    def channel(self, index: int, folder: Path | None = None) -> ssl.SSLSocket:
        return connect(folder or self.folder, index, self.port, SECONDS)

    def honest(self, index: int) -> Future[None]:
        """Let a participant do all that is due, in a thread."""
        return self._pool.submit(self._take_part, index)

    def _take_part(self, index: int) -> None:
        party = self.party(index)
        with self.channel(index) as channel:
            send(channel, party.vote(), self.deadline)
            request = receive(channel, self.round.size(Kind.REQUEST), self.deadline)
            send(channel, party.partial(request), self.deadline)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        self.listener.close()


@pytest.fixture
def running(folder: Path) -> Iterator[Running]:
    made = Running(folder)
    yield made
    made.close()


def test_processes_and_functions_give_the_same_tallies() -> None:
    over_sockets = aggregate_over_sockets(VOTES, SETTING, KEYS, np.random.default_rng(8))
    assert np.array_equal(
        over_sockets, aggregate(VOTES, SETTING, KEYS, np.random.default_rng(8)).counts
    )


@pytest.mark.slow
def test_fifteen_processes_at_2048_bits() -> None:
    setting = Setting(15, 10, noise_std=4.0)
    keys, votes = deal(setting), np.random.default_rng(0).integers(0, 10, (9, 15))
    over_sockets = aggregate_over_sockets(votes, setting, keys, np.random.default_rng(8), 300)
    within = aggregate(votes, setting, keys, np.random.default_rng(8)).counts
    assert np.array_equal(over_sockets, within)


def test_a_process_killed_after_its_vote_voids_the_round_and_the_others_begin_anew(
    folder: Path,
) -> None:
    round_ = Round.start(KEYS.public, SETTING, len(VOTES))
    aggregator, port = start_aggregator(round_, folder, SECONDS)
    processes = [aggregator]
    try:
        for index in (0, 2):
            own = (KEYS.shares[index], VOTES[:, index], index, folder, port, SECONDS)
            processes.append(start_participant(round_, *own))
        assert heard(processes[2]) == {"done": "voted"}
        processes[2].kill()
        processes[2].wait()
        party = Participant(round_, KEYS.shares[1], VOTES[:, 1])
        with connect(folder, 1, port, SECONDS) as channel:
            send(channel, party.vote(), Deadline(SECONDS))
            with pytest.raises(DroppedOutError, match="decryption: nothing from") as caught:
                result(aggregator)
        assert caught.value.gone == (2,)
        said = [heard(processes[1]), heard(processes[1])]
        assert said == [{"done": "voted"}, {"done": "decrypted"}]
    finally:
        stop(processes)
    setting, keys, left = remaining(SETTING, caught.value.gone)
    seeds = [np.random.default_rng(1) for _ in range(2)]
    anew = aggregate_over_sockets(VOTES[:, left], setting, keys, seeds[0])
    assert np.array_equal(anew, aggregate(VOTES[:, left], setting, keys, seeds[1]).counts)


def test_a_participant_says_that_the_aggregator_is_gone(folder: Path) -> None:
    with socket.create_server((HOST, 0)) as listener:
        round_ = Round.start(KEYS.public, SETTING, len(VOTES))
        port = listener.getsockname()[1]
        party = start_participant(round_, KEYS.shares[0], VOTES[:, 0], 0, folder, port, SECONDS)
        listener.accept()[0].close()
        assert "the aggregator is gone or ended the round" in heard(party)["void"]
        assert party.wait(SECONDS) == 1
        stop([party])


def leave(running: Running) -> None:
    running.channel(1).close()


def leave_in_the_middle(running: Running) -> None:
    vote = running.party(1).vote()
    with running.channel(1) as channel:
        channel.sendall(len(vote).to_bytes(4, "big") + vote[:40])


@pytest.mark.parametrize("way", [leave, leave_in_the_middle])
def test_who_leaves_before_the_vote_is_named(
    running: Running, way: Callable[[Running], None]
) -> None:
    others = [running.honest(index) for index in (0, 2)]
    way(running)
    with pytest.raises(DroppedOutError, match="votes: nothing from participant 1"):
        running.done.result(SECONDS)
    for other in others:  # they are not left waiting
        assert isinstance(other.exception(SECONDS), OSError)


def test_who_leaves_is_known_before_those_who_are_slow_have_voted(running: Running) -> None:
    with running.channel(0), running.channel(2):
        leave(running)
        with pytest.raises(DroppedOutError, match="votes: nothing from participant 1;"):
            running.done.result(SECONDS)
        assert not running.deadline.over


@pytest.mark.parametrize(
    ("garbage", "message"),
    [
        (b"\xff\xff\xff\xff", "a message of 4294967295 bytes where one of"),
        (b"GET / HTTP/1.1\r\n\r\n", "a message of 1195725856 bytes"),
        ((35 + 2 * 64 + 64).to_bytes(4, "big") + bytes(227), "another kind of message"),
    ],
)
def test_garbage_from_a_participant_is_refused(
    running: Running, garbage: bytes, message: str
) -> None:
    for index in (0, 2):
        running.honest(index)
    with running.channel(1) as channel:
        channel.sendall(garbage)
        with pytest.raises(MessageError, match=f"participant 1: .*{message}"):
            running.done.result(SECONDS)


def closed(channel: ssl.SSLSocket) -> bool:
    try:
        return channel.recv(1) == b""
    except OSError:
        return True


STRANGERS = {  # whose certificates, whose name, and what the stranger meets
    "no certificate": ("folder", None, None),
    "another authority": ("elsewhere", "participant-1", None),
    "the aggregator's own": ("folder", "aggregator", None),
    "old TLS": ("folder", "participant-1", r"(?i)version"),
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_strangers_are_sent_away_and_the_round_goes_on(
    running: Running, request: pytest.FixtureRequest, stranger: str
) -> None:
    place, name, fault = STRANGERS[stranger]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(running.folder / channels.AUTHORITY)
    if name is not None:
        context.load_cert_chain(channels.party_file(request.getfixturevalue(place), name))
    with socket.create_connection((HOST, running.port)) as raw:
        raw.sendall(b"not TLS at all" * 50)
    with socket.create_connection((HOST, running.port)) as raw:
        if fault is None:
            assert closed(context.wrap_socket(raw, server_hostname="aggregator"))
        else:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises(ssl.SSLError, match=fault):
                context.wrap_socket(raw, server_hostname="aggregator")
    for index in range(3):
        running.honest(index)
    running.done.result(SECONDS)
    assert running.aggregator.counts().shape == (2, 4)


def test_who_calls_and_says_nothing_keeps_nobody_waiting(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a handshake might take longer than the round."""
    monkeypatch.setattr(channels, "HANDSHAKE_SECONDS", 10 * SECONDS)
    with ExitStack() as calls:
        for _ in range(4):
            calls.enter_context(socket.create_connection((HOST, running.port)))
        for index in range(3):
            running.honest(index)
        running.done.result(SECONDS)
    assert running.aggregator.counts().shape == (2, 4)


def test_a_participant_connects_once(running: Running) -> None:
    with running.channel(1) as first, running.channel(1) as second:
        assert closed(second)
        party = running.party(1)
        send(first, party.vote(), running.deadline)
        for index in (0, 2):
            running.honest(index)
        request = receive(first, running.round.size(Kind.REQUEST), running.deadline)
        send(first, party.partial(request), running.deadline)
    running.done.result(SECONDS)


def test_a_false_aggregator_is_told_nothing(folder: Path, elsewhere: Path) -> None:
    false = Running(elsewhere, seconds=1.0)
    with pytest.raises(ssl.SSLCertVerificationError):
        false.channel(0, folder)
    with pytest.raises(DroppedOutError):
        false.done.result(SECONDS)
    false.close()


def test_who_is_silent_is_gone_at_the_deadline(folder: Path) -> None:
    made = Running(folder, seconds=1.0)
    others = [made.honest(0)]
    with made.channel(1), made.channel(2) as third:
        send(third, made.party(2).vote(), made.deadline)
        with pytest.raises(DroppedOutError, match="votes: nothing from participant 1"):
            made.done.result(SECONDS)
    assert isinstance(others[0].exception(SECONDS), OSError)
    made.close()


def test_who_does_not_come_is_gone_at_the_deadline(folder: Path) -> None:
    made = Running(folder, seconds=0.5)
    with made.channel(1), pytest.raises(DroppedOutError, match="participant 0, 2;"):
        made.done.result(SECONDS)
    made.close()


def test_a_message_that_is_not_whole_at_the_deadline_is_not_waited_for() -> None:
    """Or who sends a byte now and then would keep a round open for ever."""
    reader, writer = socket.socketpair()
    with reader, writer:
        send(writer, b"whole", Deadline(SECONDS))  # type: ignore[arg-type]
        with pytest.raises(TimeoutError, match="0 of 4 bytes by the deadline"):
            receive(reader, 5, Deadline(-1.0))  # type: ignore[arg-type]
        assert receive(reader, 5, Deadline(SECONDS)) == b"whole"  # type: ignore[arg-type]


def test_who_does_not_read_is_not_waited_for() -> None:
    reader, writer = socket.socketpair()
    with reader, writer, pytest.raises(TimeoutError):
        send(writer, bytes(1 << 24), Deadline(0.1))  # type: ignore[arg-type]


def test_a_participant_refuses_a_request_of_another_round(folder: Path) -> None:
    round_, deadline = Round.start(KEYS.public, SETTING, len(VOTES)), Deadline(SECONDS)
    with socket.create_server((HOST, 0)) as listener:
        own = (KEYS.shares[0], VOTES[:, 0], 0, folder, listener.getsockname()[1], SECONDS)
        party = start_participant(round_, *own)
        try:
            (channel,) = accept_all(listener, folder, 1, deadline).values()
            with channel:
                receive(channel, round_.size(Kind.VOTE), deadline)
                wrong = bytes([Kind.REQUEST]) + bytes(round_.size(Kind.REQUEST) - 1)
                send(channel, wrong, deadline)
                assert heard(party) == {"done": "voted"}
                assert "request of the aggregator: " in heard(party)["error"]
                assert party.wait(SECONDS) == 1
        finally:
            stop([party])


def test_keys_are_read_by_this_user_alone_and_never_written_over(folder: Path) -> None:
    names = {"aggregator", "authority", *(f"participant-{i}" for i in range(3))}
    assert {file.stem for file in folder.iterdir()} == names
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert b"PRIVATE" not in (folder / channels.AUTHORITY).read_bytes()
    with pytest.raises(FileExistsError):
        channels.make_certificates(folder, 3)


def test_a_party_is_no_authority(folder: Path) -> None:
    x509 = pytest.importorskip("cryptography.x509")
    found = {}
    for file in folder.iterdir():
        certificate = x509.load_pem_x509_certificates(file.read_bytes())[0]
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        found[file.stem] = (names.get_values_for_type(x509.DNSName), basic.ca)
    assert found == {name: ([name], name == "authority") for name in found}


def test_without_cryptography_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(LabellingError, match=r"pip install 'cemlib\[labelling\]'"):
        channels.make_certificates(tmp_path, 2)
