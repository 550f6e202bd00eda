"""Connect parties over TCP on loopback by TLS 1.3, both sides with certificates of this run.

The certificates are of an authority made for the run, with one name for each party. Keys are P-256;
everything is valid for a day and lies in a temporary folder that only this user reads. The private
key of the authority is never written.

On the wire a message is its length (4 bytes, big-endian) and its bytes. The receiver knows the
length that is due and refuses any other before reading on.
"""

import contextlib
import datetime
import os
import socket
import ssl
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.labelling.errors import DroppedOutError, LabellingError, MessageError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

HOST = "127.0.0.1"
HANDSHAKE_SECONDS = 5.0
MOMENT = 0.02  # seconds between two looks at the handshakes that have ended
STRANGERS = 16  # handshakes at once, beside those of the participants
AUTHORITY = "authority.pem"
AGGREGATOR_NAME = "aggregator"


def participant_name(index: int) -> str:
    """Return the name in participant i's certificate."""
    return f"participant-{index}"


def party_file(folder: Path, name: str) -> Path:
    """Return the file with a party's private key and certificate."""
    return folder / f"{name}.pem"


def make_certificates(folder: Path, participants: int) -> None:
    """Write the authority's certificate and every party's key and certificate into a folder.

    Raises:
        LabellingError: the package cryptography is not installed.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise LabellingError(
            "parties over sockets need certificates: pip install 'cemlib[labelling]'"
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("authority", key, None, key)
    _write(folder / AUTHORITY, _pem(authority))
    for name in (AGGREGATOR_NAME, *map(participant_name, range(participants))):
        own = ec.generate_private_key(ec.SECP256R1())
        signed = _certificate(name, own, authority, key)
        _write(party_file(folder, name), _private_pem(own) + _pem(signed))


def _certificate(
    name: str,
    key: "ec.EllipticCurvePrivateKey",
    issuer: "x509.Certificate | None",
    issuer_key: "ec.EllipticCurvePrivateKey",
) -> "x509.Certificate":
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    return builder.sign(issuer_key, hashes.SHA256())


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _private_pem(key: "ec.EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, data: bytes) -> None:
    """Write a file that only this user reads from its first byte on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


class Deadline:
    """Remember a point in time, for sockets that want the seconds left."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self, most: float = float("inf")) -> float:
        """Return the seconds left, at most `most`; a thousandth when they are over."""
        return max(1e-3, min(most, self._end - time.monotonic()))

    @property
    def over(self) -> bool:
        """Return whether it has passed."""
        return time.monotonic() >= self._end


def _context(folder: Path, name: str, *, server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(folder / AUTHORITY)
    context.load_cert_chain(party_file(folder, name))
    return context


def connect(folder: Path, index: int, port: int, seconds: float) -> ssl.SSLSocket:
    """Return participant i's channel to the aggregator, whose certificate is checked."""
    raw = socket.create_connection((HOST, port), timeout=seconds)
    context = _context(folder, participant_name(index), server=False)
    return context.wrap_socket(raw, server_hostname=AGGREGATOR_NAME)


def accept_all(
    listener: socket.socket, folder: Path, participants: int, deadline: Deadline
) -> dict[int, ssl.SSLSocket]:
    """Return a channel for each participant, by the index in its certificate.

    Strangers, and second connections of the same participant, are closed and waiting goes on.

    Raises:
        DroppedOutError: some have not connected by the deadline.
    """
    context = _context(folder, AGGREGATOR_NAME, server=True)
    context.num_tickets = 0
    names = {participant_name(index): index for index in range(participants)}
    channels: dict[int, ssl.SSLSocket] = {}
    pool = ThreadPoolExecutor(participants + STRANGERS)  # who says nothing keeps nobody waiting
    callers: list[Future[ssl.SSLSocket | None]] = []
    while len(channels) < participants and not deadline.over:
        if raw := _next_caller(listener, deadline):
            callers.append(pool.submit(_shake_hands, raw, context, deadline))
        for caller in [one for one in callers if one.done()]:
            callers.remove(caller)
            channel = caller.result()
            index = names.get(_peer(channel)) if channel else None
            if channel and index is not None and index not in channels:
                channels[index] = channel
            elif channel:
                channel.close()
    pool.shutdown(wait=False, cancel_futures=True)
    if len(channels) < participants:
        close_all(channels)
        raise DroppedOutError(set(range(participants)) - set(channels), "votes")
    return channels


def close_all(channels: dict[int, ssl.SSLSocket]) -> None:
    """Close every channel."""
    for channel in channels.values():
        channel.close()


def hang_up(channels: dict[int, ssl.SSLSocket]) -> None:
    """End every conversation, so that whoever waits for a message stops waiting."""
    for channel in channels.values():
        with contextlib.suppress(OSError):  # of one that the other side has ended
            socket.socket.shutdown(channel, socket.SHUT_RDWR)


def _next_caller(listener: socket.socket, deadline: Deadline) -> socket.socket | None:
    """Return the next caller's socket; None if nobody has called for a moment."""
    listener.settimeout(deadline.left(MOMENT))
    try:
        return listener.accept()[0]
    except TimeoutError:
        return None


def _shake_hands(
    raw: socket.socket, context: ssl.SSLContext, deadline: Deadline
) -> ssl.SSLSocket | None:
    """Return a caller's channel; None if the caller is refused, or too slow."""
    raw.settimeout(deadline.left(HANDSHAKE_SECONDS))
    try:
        return context.wrap_socket(raw, server_side=True)
    except OSError:  # no TLS, no certificate of this authority, or gone: a stranger
        raw.close()
        return None


def _peer(channel: ssl.SSLSocket) -> str:
    """Return the name in the peer's certificate."""
    certificate = channel.getpeercert() or {}
    entries = certificate.get("subjectAltName", ())
    names = [str(entry[1]) for entry in entries if entry[0] == "DNS"]
    return names[0] if len(names) == 1 else ""


def send(channel: ssl.SSLSocket, message: bytes, deadline: Deadline) -> None:
    """Send a message; OSError if the other side is gone."""
    rest = memoryview(len(message).to_bytes(4, "big") + message)
    while rest:  # not `sendall`, which gives every piece of a message the whole time
        channel.settimeout(deadline.left())
        rest = rest[channel.send(rest) :]


def receive(channel: ssl.SSLSocket, size: int, deadline: Deadline) -> bytes:
    """Return the next message, which must have `size` bytes.

    Raises:
        MessageError: another length is announced.
        OSError: the other side is gone, or has not sent all of it by the deadline.
    """
    announced = int.from_bytes(_exactly(channel, 4, deadline), "big")
    if announced != size:
        raise MessageError(f"a message of {announced} bytes where one of {size} is due")
    return _exactly(channel, size, deadline)


def _exactly(channel: ssl.SSLSocket, size: int, deadline: Deadline) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline.over:  # who sends byte by byte is late as well
            raise TimeoutError(f"{len(data)} of {size} bytes by the deadline")
        channel.settimeout(deadline.left())
        piece = channel.recv(min(size - len(data), 1 << 16))
        if not piece:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += piece
    return bytes(data)
