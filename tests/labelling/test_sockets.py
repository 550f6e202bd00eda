"""Parties over TLS: the same tallies, and who is gone, strange or malicious is found out.

Participants that misbehave write their messages to blocking sockets by themselves.
"""

import asyncio
import json
import socket
import ssl
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cemlib.labelling import channels, process
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


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def told(index: int, port: int) -> dict[str, Any]:
    """What a participant's process is told besides the round and the certificates' folder."""
    share, votes = asdict(KEYS.shares[index]), VOTES[:, index].tolist()
    return {"share": share, "votes": votes, "noise_seed": index, "port": port}


def taking_part(
    pool: ThreadPoolExecutor, folder: Path, port: int, index: int = 0, seconds: float = SECONDS
) -> Future[int]:
    """Let a participant do all that is due, in a thread; the result is its exit code."""
    job = told(index, port) | {"round": asdict(ROUND), "folder": folder, "seconds": seconds}
    return pool.submit(lambda: asyncio.run(take_part(job)))


def party(index: int) -> Participant:
    return Participant(ROUND, KEYS.shares[index], VOTES[:, index], index)


def calling(folder: Path, name: str | None, port: int, **options: Any) -> ssl.SSLSocket:
    """Call the aggregator with a party's certificate, or none."""
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    own.load_verify_locations(folder / "authority.pem")
    if name is not None:
        own.load_cert_chain(channels.party_file(options.pop("place", folder), name))
    for option, value in options.items():
        setattr(own, option, value)
    raw = socket.create_connection((HOST, port), timeout=SECONDS)
    return own.wrap_socket(raw, server_hostname="aggregator")


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def received(channel: ssl.SSLSocket, kind: Kind) -> bytes:
    due = framed(bytes(ROUND.size(kind)))
    data = channel.makefile("rb").read(len(due))
    assert (len(data), data[:4]) == (len(due), due[:4])
    return data[4:]


class Running:
    """An aggregator in a thread of this process, on a real port."""

    def __init__(self, pool: ThreadPoolExecutor, folder: Path, seconds: float) -> None:
        self.pool, self.folder, self.aggregator = pool, folder, Aggregator(ROUND)
        listener = socket.create_server((HOST, 0))
        self.port = listener.getsockname()[1]
        self.done: Future[None] = pool.submit(
            lambda: asyncio.run(collect(self.aggregator, listener, folder, seconds))
        )

    def channel(self, index: int) -> ssl.SSLSocket:
        return calling(self.folder, f"participant-{index}", self.port)

    def honest(self, *participants: int) -> list[Future[int]]:
        return [taking_part(self.pool, self.folder, self.port, index) for index in participants]

    def tallied(self) -> bool:
        """Wait for the end of the round; return whether it has tallies."""
        self.done.result(SECONDS)
        return self.aggregator.counts().shape == (2, 4)


@pytest.fixture
def running(
    pool: ThreadPoolExecutor,
    folder: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Running:
    monkeypatch.setattr(process, "say", lambda **_: None)  # a thread may end after its test
    return Running(pool, folder, getattr(request, "param", SECONDS))


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


def test_a_process_killed_after_its_vote_voids_the_round(folder: Path) -> None:
    aggregator = start("aggregator", ROUND, folder, SECONDS)
    processes = [aggregator]
    try:
        port = heard(aggregator)["port"]
        for index in (0, 2):
            processes.append(start("participant", ROUND, folder, SECONDS, **told(index, port)))
        assert heard(processes[2]) == {"done": "voted"}
        processes[2].kill()
        processes[2].wait()
        with calling(folder, "participant-1", port) as channel:
            channel.sendall(framed(party(1).vote()))
            with pytest.raises(DroppedOutError, match="decryption: nothing from") as caught:
                result(aggregator)
        assert caught.value.gone == (2,)
        assert heard(processes[1]) == {"done": "voted"}
        processes[1].wait(SECONDS)  # it is not left waiting
    finally:
        stop(processes)


@pytest.mark.parametrize("seconds", [SECONDS, 1.0], ids=["closed", "silent"])
def test_a_participant_says_that_the_aggregator_is_gone(
    pool: ThreadPoolExecutor, folder: Path, seconds: float, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server((HOST, 0)) as listener:
        code = taking_part(pool, folder, listener.getsockname()[1], seconds=seconds)
        with listener.accept()[0] as raw:
            if seconds == SECONDS:
                raw.close()
            assert code.result(SECONDS) == 1
    said = json.loads(capsys.readouterr().out)
    assert "the aggregator is gone or ended the round" in said["void"]


def test_a_participant_refuses_a_request_of_another_round(
    pool: ThreadPoolExecutor, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(channels.party_file(folder, "aggregator"))
    with socket.create_server((HOST, 0)) as listener:
        code = taking_part(pool, folder, listener.getsockname()[1])
        with server.wrap_socket(listener.accept()[0], server_side=True) as channel:
            received(channel, Kind.VOTE)
            request = bytes([Kind.REQUEST]) + bytes(ROUND.size(Kind.REQUEST) - 1)
            channel.sendall(framed(request))
            assert code.result(SECONDS) == 1
    voted, ended = map(json.loads, capsys.readouterr().out.splitlines())
    assert voted == {"done": "voted"}
    assert "request of the aggregator: " in ended["error"]


@pytest.mark.parametrize("size", [0, 40])
def test_who_leaves_before_the_vote_is_named_at_once(running: Running, size: int) -> None:
    (other,) = running.honest(0)
    with running.channel(2):  # who has not voted yet is not taken for gone
        with running.channel(1) as channel:
            channel.sendall(framed(party(1).vote())[:size])
        with pytest.raises(DroppedOutError, match="votes: nothing from participant 1;"):
            running.done.result(SECONDS / 2)
    assert other.result(SECONDS) == 1  # it is not left waiting


@pytest.mark.parametrize(
    ("garbage", "message"),
    [
        (b"\xff\xff\xff\xff", "a message of 4294967295 bytes where one of"),
        (b"GET / HTTP/1.1\r\n\r\n", "a message of 1195725856 bytes"),
        (framed(bytes(ROUND.size(Kind.VOTE))), "another kind of message"),
    ],
    ids=["huge", "HTTP", "zeros"],
)
def test_garbage_from_a_participant_is_refused(
    running: Running, garbage: bytes, message: str
) -> None:
    running.honest(0, 2)
    with running.channel(1) as channel:
        channel.sendall(garbage)
        with pytest.raises(MessageError, match=f"participant 1: .*{message}"):
            running.done.result(SECONDS)


def closed(channel: ssl.SSLSocket) -> bool:
    try:
        return channel.recv(1) == b""
    except OSError:
        return True


def test_strangers_are_sent_away_and_the_round_goes_on(running: Running, elsewhere: Path) -> None:
    folder, port, name = running.folder, running.port, "participant-1"
    with socket.create_connection((HOST, port)) as raw:
        raw.sendall(b"not TLS at all" * 50)
    assert closed(calling(folder, None, port))
    assert closed(calling(folder, name, port, place=elsewhere))  # of another authority
    assert closed(calling(folder, "aggregator", port))
    with pytest.raises(OSError, match=r"(?i)version|EOF|reset"):
        calling(folder, name, port, maximum_version=ssl.TLSVersion.TLSv1_2)
    running.honest(0, 1, 2)
    assert running.tallied()


def test_who_calls_and_says_nothing_keeps_nobody_waiting(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a handshake might take longer than the round."""
    monkeypatch.setattr(channels, "HANDSHAKE_SECONDS", 10 * SECONDS)
    with ExitStack() as calls:
        for _ in range(4):
            calls.enter_context(socket.create_connection((HOST, running.port)))
        running.honest(0, 1, 2)
        assert running.tallied()


def test_a_participant_connects_once(running: Running) -> None:
    with running.channel(1) as first, running.channel(1) as second:
        assert closed(second)
        running.honest(0, 2)
        own = party(1)
        first.sendall(framed(own.vote()))
        first.sendall(framed(own.partial(received(first, Kind.REQUEST))))
        assert running.tallied()


def test_a_false_aggregator_is_told_nothing(
    pool: ThreadPoolExecutor, folder: Path, elsewhere: Path
) -> None:
    false = Running(pool, elsewhere, seconds=1.0)
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(channels.connect(folder, 0, false.port))
    with pytest.raises(DroppedOutError, match="participant 0, 1, 2;"):
        false.done.result(SECONDS)


@pytest.mark.parametrize("size", [40, None], ids=["half a vote", "a whole vote"])
@pytest.mark.parametrize("running", [1.5], indirect=True)
def test_who_is_silent_is_gone_at_the_deadline(running: Running, size: int | None) -> None:
    (other,) = running.honest(0)
    with running.channel(1) as second, running.channel(2) as third:
        second.sendall(framed(party(1).vote())[:size])
        third.sendall(framed(party(2).vote()))
        fault = "decryption: nothing from participant 1, 2;"
        with pytest.raises(DroppedOutError, match=fault if size is None else "votes: .* 1;"):
            running.done.result(SECONDS)
    assert (other.result(SECONDS) == 0) == (size is None)


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
