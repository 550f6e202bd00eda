"""Parties over TLS: the same tallies, and who is gone, strange or malicious is found out.

The participants of these tests write the messages to blocking sockets by themselves.
"""

import asyncio
import json
import socket
import ssl
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cemlib.labelling import channels
from cemlib.labelling.channels import HOST
from cemlib.labelling.errors import DroppedOutError, LabellingError, MessageError
from cemlib.labelling.messages import Kind, Round
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.process import collect, take_part
from cemlib.labelling.protocol import Setting, aggregate, deal
from cemlib.labelling.sockets import aggregate_over_sockets, heard, result, start, stop

pytest.importorskip("cryptography")

SETTING = Setting(3, 4, noise_std=3.0, key_bits=256, insecure_for_testing=True)
VOTES = np.array([[0, 1, 1], [3, 2, 3]])
KEYS = deal(SETTING)
ROUND = Round(KEYS.public, SETTING, len(VOTES))
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


def context(folder: Path, name: str | None) -> ssl.SSLContext:
    """What a party of this name shakes hands with, and trusts."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(folder / "authority.pem")
    if name is not None:
        made.load_cert_chain(channels.party_file(folder, name))
    return made


def calling(folder: Path, index: int, port: int) -> ssl.SSLSocket:
    raw = socket.create_connection((HOST, port), timeout=SECONDS)
    own = context(folder, f"participant-{index}")
    return own.wrap_socket(raw, server_hostname="aggregator")


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def send(channel: ssl.SSLSocket, message: bytes) -> None:
    channel.sendall(framed(message))


def receive(channel: ssl.SSLSocket, size: int) -> bytes:
    data = b""
    while len(data) < 4 + size:
        piece = channel.recv(4 + size - len(data))
        if not piece:
            raise ConnectionError("closed")
        data += piece
    assert data[:4] == size.to_bytes(4, "big")
    return data[4:]


class Running:
    """An aggregator in a thread of this process, on a real port."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder = folder
        self.aggregator = Aggregator(ROUND)
        listener = socket.create_server((HOST, 0))
        self.port = listener.getsockname()[1]
        self._pool = ThreadPoolExecutor(4)
        self.done: Future[None] = self._pool.submit(
            lambda: asyncio.run(collect(self.aggregator, listener, folder, seconds))
        )

    def party(self, index: int) -> Participant:
        return Participant(ROUND, KEYS.shares[index], VOTES[:, index], index)

    def channel(self, index: int) -> ssl.SSLSocket:
        return calling(self.folder, index, self.port)

    def honest(self, index: int) -> Future[None]:
        """Let a participant do all that is due, in a thread."""
        return self._pool.submit(self._take_part, index)

    def _take_part(self, index: int) -> None:
        with self.channel(index) as channel:
            self.converse(index, channel)

    def converse(self, index: int, channel: ssl.SSLSocket) -> None:
        party = self.party(index)
        send(channel, party.vote())
        request = receive(channel, ROUND.size(Kind.REQUEST))
        send(channel, party.partial(request))

    def tallied(self) -> bool:
        """Wait for the end of the round; return whether it has tallies."""
        self.done.result(SECONDS)
        return self.aggregator.counts().shape == (2, 4)

    def close(self) -> None:
        self._pool.shutdown(wait=True)


@pytest.fixture
def running(folder: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    made = Running(folder, getattr(request, "param", SECONDS))
    yield made
    made.close()


def test_processes_and_functions_give_the_same_tallies() -> None:
    votes = np.tile(VOTES, (600, 1))  # messages larger than the buffers of a connection
    over_sockets = aggregate_over_sockets(votes, SETTING, KEYS, np.random.default_rng(8))
    within = aggregate(votes, SETTING, KEYS, np.random.default_rng(8))
    assert np.array_equal(over_sockets, within)


@pytest.mark.slow
def test_fifteen_processes_at_2048_bits() -> None:
    setting = Setting(15, 10, noise_std=4.0)
    keys, votes = deal(setting), np.random.default_rng(0).integers(0, 10, (9, 15))
    over_sockets = aggregate_over_sockets(votes, setting, keys, np.random.default_rng(8), 300)
    within = aggregate(votes, setting, keys, np.random.default_rng(8))
    assert np.array_equal(over_sockets, within)


def own(index: int, **others: Any) -> dict[str, Any]:
    """What a participant's process is told besides the public parameters."""
    share, votes = asdict(KEYS.shares[index]), VOTES[:, index].tolist()
    return {"share": share, "votes": votes, "noise_seed": index} | others


def test_a_process_killed_after_its_vote_voids_the_round(folder: Path) -> None:
    aggregator = start("aggregator", ROUND, folder, SECONDS)
    processes = [aggregator]
    try:
        port = heard(aggregator)["port"]
        for index in (0, 2):
            told = own(index, port=port)
            processes.append(start("participant", ROUND, folder, SECONDS, **told))
        assert heard(processes[2]) == {"done": "voted"}
        processes[2].kill()
        processes[2].wait()
        with calling(folder, 1, port) as channel:
            send(channel, Participant(ROUND, KEYS.shares[1], VOTES[:, 1]).vote())
            with pytest.raises(DroppedOutError, match="decryption: nothing from") as caught:
                result(aggregator)
        assert caught.value.gone == (2,)
        assert heard(processes[1]) == {"done": "voted"}
        processes[1].wait(SECONDS)  # it is not left waiting
    finally:
        stop(processes)


@contextmanager
def taking_part(folder: Path, listener: socket.socket, seconds: float) -> Iterator[Future[int]]:
    """Let participant 0 call a listener, in a thread; the result is its exit code."""
    told = own(0, round=asdict(ROUND), folder=folder, port=listener.getsockname()[1])
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(lambda: asyncio.run(take_part(told | {"seconds": seconds})))


@pytest.mark.parametrize("seconds", [SECONDS, 1.0], ids=["closed", "silent"])
def test_a_participant_says_that_the_aggregator_is_gone(
    folder: Path, seconds: float, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        socket.create_server((HOST, 0)) as listener,
        taking_part(folder, listener, seconds) as code,
        listener.accept()[0] as raw,
    ):
        if seconds == SECONDS:
            raw.close()
        assert code.result(SECONDS) == 1
    assert (
        "the aggregator is gone or ended the round" in json.loads(capsys.readouterr().out)["void"]
    )


def test_a_participant_refuses_a_request_of_another_round(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(channels.party_file(folder, "aggregator"))
    with (
        socket.create_server((HOST, 0)) as listener,
        taking_part(folder, listener, SECONDS) as code,
        server.wrap_socket(listener.accept()[0], server_side=True) as channel,
    ):
        receive(channel, ROUND.size(Kind.VOTE))
        send(channel, bytes([Kind.REQUEST]) + bytes(ROUND.size(Kind.REQUEST) - 1))
        assert code.result(SECONDS) == 1
    voted, ended = map(json.loads, capsys.readouterr().out.splitlines())
    assert voted == {"done": "voted"}
    assert "request of the aggregator: " in ended["error"]


@pytest.mark.parametrize("size", [0, 40])
def test_who_leaves_before_the_vote_is_named_at_once(running: Running, size: int) -> None:
    other = running.honest(0)
    with running.channel(2):  # who has not voted yet is not taken for gone
        with running.channel(1) as channel:
            channel.sendall(framed(running.party(1).vote())[:size])
        with pytest.raises(DroppedOutError, match="votes: nothing from participant 1;"):
            running.done.result(SECONDS / 2)
    assert isinstance(other.exception(SECONDS), OSError)  # it is not left waiting


@pytest.mark.parametrize(
    ("garbage", "message"),
    [
        (b"\xff\xff\xff\xff", "a message of 4294967295 bytes where one of"),
        (b"GET / HTTP/1.1\r\n\r\n", "a message of 1195725856 bytes"),
        ((35 + 2 * 64 + 32 + 64).to_bytes(4, "big") + bytes(259), "another kind of message"),
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


STRANGERS = {  # whose certificates, whose name, and the newest version of TLS
    "no certificate": ("folder", None, ssl.TLSVersion.TLSv1_3),
    "another authority": ("elsewhere", "participant-1", ssl.TLSVersion.TLSv1_3),
    "the aggregator's own": ("folder", "aggregator", ssl.TLSVersion.TLSv1_3),
    "old TLS": ("folder", "participant-1", ssl.TLSVersion.TLSv1_2),
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_strangers_are_sent_away_and_the_round_goes_on(
    running: Running, request: pytest.FixtureRequest, stranger: str
) -> None:
    place, name, newest = STRANGERS[stranger]
    own = context(running.folder, None)
    own.maximum_version = newest
    if name is not None:
        own.load_cert_chain(channels.party_file(request.getfixturevalue(place), name))
    with socket.create_connection((HOST, running.port)) as raw:
        raw.sendall(b"not TLS at all" * 50)
    with socket.create_connection((HOST, running.port), timeout=SECONDS / 2) as raw:
        if newest is ssl.TLSVersion.TLSv1_2:
            with pytest.raises(OSError, match=r"(?i)version|EOF|reset"):
                own.wrap_socket(raw, server_hostname="aggregator")
        else:
            assert closed(own.wrap_socket(raw, server_hostname="aggregator"))
    for index in range(3):
        running.honest(index)
    assert running.tallied()


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
        assert running.tallied()


def test_a_participant_connects_once(running: Running) -> None:
    with running.channel(1) as first, running.channel(1) as second:
        assert closed(second)
        for index in (0, 2):
            running.honest(index)
        running.converse(1, first)
        assert running.tallied()


def test_a_false_aggregator_is_told_nothing(folder: Path, elsewhere: Path) -> None:
    false = Running(elsewhere, seconds=1.0)
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(channels.connect(folder, 0, false.port))
    with pytest.raises(DroppedOutError, match="participant 0, 1, 2;"):
        false.done.result(SECONDS)
    false.close()


@pytest.mark.parametrize("size", [0, 40, None], ids=["nothing", "half a vote", "a whole vote"])
@pytest.mark.parametrize("running", [1.5], indirect=True)
def test_who_is_silent_is_gone_at_the_deadline(running: Running, size: int | None) -> None:
    other = running.honest(0)
    with running.channel(1) as second, running.channel(2) as third:
        second.sendall(framed(running.party(1).vote())[:size])
        send(third, running.party(2).vote())
        fault = "decryption: nothing from participant 1, 2;"
        with pytest.raises(DroppedOutError, match=fault if size is None else "votes: .* 1;"):
            running.done.result(SECONDS)
    assert (other.exception(SECONDS) is None) == (size is None)


@pytest.mark.parametrize("running", [0.5], indirect=True)
def test_who_does_not_come_is_gone_at_the_deadline(running: Running) -> None:
    with running.channel(1), pytest.raises(DroppedOutError, match="participant 0, 2;"):
        running.done.result(SECONDS)


def test_keys_are_read_by_this_user_alone_and_never_written_over(folder: Path) -> None:
    names = {"aggregator", "authority", *(f"participant-{i}" for i in range(3))}
    assert {file.stem for file in folder.iterdir()} == names
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert b"PRIVATE" not in (folder / "authority.pem").read_bytes()
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
