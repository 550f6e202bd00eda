"""Three parties with certificates, in threads of this process and on real sockets, for tests."""

import asyncio
import re
import shutil
import socket
import ssl
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cemlib.labelling.channels import secured
from cemlib.labelling.dealing import Public, read_dealt, write_keys
from cemlib.labelling.parties import Participant
from cemlib.labelling.protocol import Setting
from cemlib.labelling.roles import Seat, aggregate, request, take_part
from cemlib.labelling.sharing import KeyShare

HOST = "127.0.0.2"  # of the aggregator; the others call from 127.0.0.1
SETTING = Setting(3, 4, noise_std=0.0, key_bits=256, insecure_for_testing=True)
VOTES = np.array([[0, 1, 1], [3, 2, 3]])
TALLIES = [[1, 2, 0, 0], [0, 0, 1, 2]]
IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)
SECONDS = 30.0
PAGE = Path(__file__).parents[2] / "docs/labelling_protocol.md"
NEEDS_OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
TWO_NAMES = "participant-1,DNS:aggregator"  # both are in this certificate
HEAD = 64  # bytes: shape, nonce and name of a round


def dealt(folder: Path) -> Path:
    """A new folder with keys and certificates."""
    write_keys(folder, SETTING)
    certify(folder, SETTING.participants)
    return folder


def certify(folder: Path, participants: int) -> None:
    """Run the documentation's commands in the folder `keys`, for a number of participants."""
    commands = PAGE.read_text().partition("cd keys\n")[2].partition("\n)\n")[0]
    parties = [*(f"participant-{i}" for i in range(participants)), TWO_NAMES]
    names = " ".join(["aggregator requester", *parties])
    found, count = re.subn('PARTIES=".*"', f'PARTIES="{names}"', commands)
    assert count == 1
    subprocess.run(["bash", "-ec", found], cwd=folder, check=True, capture_output=True)
    show = ["openssl", "x509", "-noout", "-ext", "basicConstraints", "-in"]
    for file in folder.glob("*.pem"):
        said = subprocess.run([*show, file], check=True, capture_output=True, text=True).stdout
        assert ("CA:TRUE" in said) == (file.stem == "authority")


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def share(folder: Path, index: int) -> KeyShare:
    return read_dealt(folder / f"share-{index}.json", KeyShare)


class Caller:
    """A caller that writes to a blocking socket itself, with a party's certificate or none."""

    def __init__(self, folder: Path, name: str | None, port: int, **options: Any) -> None:
        self.folder, own = folder, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        own.load_verify_locations(folder / "authority.pem")
        if name is not None:
            own.load_cert_chain(options.pop("place", folder) / f"{name}.pem")
        for option, value in options.items():
            setattr(own, option, value)
        raw = socket.create_connection((HOST, port), timeout=SECONDS)
        self.socket = own.wrap_socket(raw, server_hostname="aggregator")
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def send(self, message: bytes) -> None:
        self.socket.sendall(message)

    def receive(self, size: int) -> bytes:
        """The next message, which must have this size."""
        data = self.file.read(4 + size)
        assert (len(data), data[:4]) == (4 + size, size.to_bytes(4, "big"))
        return data[4:]

    def joins(self, index: int) -> Participant:
        """Participant `index`, once the images are there."""
        nonce = self.receive(HEAD)[16:32]
        assert self.receive(IMAGES.size) == IMAGES.tobytes()
        public = read_dealt(self.folder / "public.json", Public)
        round_ = Seat(public, self.socket.context, (HOST, 0)).round(IMAGES, nonce)
        return Participant(round_, share(self.folder, index), VOTES[:, index])

    def sent_away(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


class Parties:
    """An aggregator in a thread, on a real port, and the parties that call it."""

    def __init__(self, pool: ThreadPoolExecutor, keys: Path, ledgers: Path, seconds: float) -> None:
        self.pool, self.keys, self.ledgers = pool, keys, ledgers
        listener = socket.create_server((HOST, 0))
        self.port: int = listener.getsockname()[1]
        seat = self.seat("aggregator", seconds)
        self.done: Future[int] = pool.submit(lambda: asyncio.run(aggregate(seat, listener)))

    def seat(self, name: str, seconds: float = SECONDS, **changes: Any) -> Seat:
        files = self.keys / f"{name}.pem", self.keys / "authority.pem"
        tls = secured(*files, server=name == "aggregator")
        public = changes.get("public") or read_dealt(self.keys / "public.json", Public)
        return Seat(public, tls, (HOST, changes.get("port", self.port)), seconds)

    def caller(self, name: str, **options: Any) -> Caller:
        return Caller(self.keys, name, self.port, **options)

    def asking(self) -> Future[NDArray[np.float64]]:
        """The requester."""
        seat = self.seat("requester")
        return self.pool.submit(lambda: asyncio.run(request(seat, IMAGES)))

    def honest(self, *participants: int, **changes: Any) -> list[Future[int]]:
        """Participants that follow the protocol, with changes to their seats."""
        return [self.pool.submit(self._part, index, changes) for index in participants]

    def _part(self, index: int, changes: dict[str, Any]) -> int:
        def classify(images: NDArray[np.uint8]) -> NDArray[np.int64]:
            assert np.array_equal(images, IMAGES)
            return VOTES[:, index]

        own = self.seat(f"participant-{index}", **changes), share(self.keys, index), classify
        return asyncio.run(take_part(*own, self.ledgers / f"{index}.txt"))

    def tallied(self) -> bool:
        """Let the requester ask, and wait for the end of the round."""
        counts = self.asking().result(SECONDS)
        return (counts.tolist(), self.done.result(SECONDS)) == (TALLIES, len(IMAGES))
