"""Connect parties over TCP on loopback by TLS 1.3, with certificates on both sides.

An authority made for the run signs one certificate for each party. Keys are P-256. Everything is
valid for a day and lies in a temporary folder that only this user can read. The authority's private
key is never written.

On the wire, a message is its length (4 bytes, big-endian) followed by its bytes. The receiver knows
which length is due, and refuses any other before it reads on.
"""

import asyncio
import datetime
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cemlib.labelling.errors import DroppedOutError, LabellingError, MessageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

Channel: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GONE = (OSError, EOFError)  # raised when the other side has left, or time is up
HOST = "127.0.0.1"
HANDSHAKE_SECONDS = 5.0
AUTHORITY = "authority"
AGGREGATOR_NAME = "aggregator"


def participant_name(index: int) -> str:
    """Return the name in participant i's certificate."""
    return f"participant-{index}"


def party_file(folder: Path, name: str) -> Path:
    """Return the file with a party's private key and certificate; the authority's has no key."""
    return folder / f"{name}.pem"


def make_certificates(folder: Path, participants: int) -> None:
    """Write the authority's certificate and every party's key and certificate into a folder.

    Raises:
        LabellingError: the package cryptography is not installed.
    """
    try:
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise LabellingError(
            "parties over sockets need certificates: pip install 'cemlib[labelling]'"
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    _write(party_file(folder, AUTHORITY), _certificate(AUTHORITY, key, key))
    encoding = form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    for name in (AGGREGATOR_NAME, *map(participant_name, range(participants))):
        own = ec.generate_private_key(ec.SECP256R1())
        secret = own.private_bytes(*encoding)
        _write(party_file(folder, name), secret + _certificate(name, own, key))


def _certificate(
    name: str, key: "ec.EllipticCurvePrivateKey", authority: "ec.EllipticCurvePrivateKey"
) -> bytes:
    """Return a party's certificate for its key, signed by the authority's, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name.from_rfc4514_string(f"CN={name}"))
        .issuer_name(x509.Name.from_rfc4514_string(f"CN={AUTHORITY}"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=name == AUTHORITY, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    signed = builder.sign(authority, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, data: bytes) -> None:
    """Write a new file that only this user can read, from its first byte on."""
    path.touch(0o600, exist_ok=False)
    path.write_bytes(data)


def _context(folder: Path, name: str, *, server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(party_file(folder, AUTHORITY))
    context.load_cert_chain(party_file(folder, name))
    return context


async def connect(folder: Path, index: int, port: int) -> Channel:
    """Return participant i's channel to the aggregator, whose certificate is checked."""
    context = _context(folder, participant_name(index), server=False)
    return await asyncio.open_connection(HOST, port, ssl=context, server_hostname=AGGREGATOR_NAME)


@asynccontextmanager
async def accepted(
    listener: socket.socket, folder: Path, participants: int, deadline: float
) -> AsyncIterator[dict[int, Channel]]:
    """Give a channel to each participant, by the index in its certificate; close all at the end.

    All callers shake hands at once, so one who says nothing keeps nobody waiting. Strangers, and
    second connections of the same participant, are closed. The deadline is by the clock of the
    event loop.

    Raises:
        DroppedOutError: some have not connected by the deadline.
    """
    context = _context(folder, AGGREGATOR_NAME, server=True)
    context.num_tickets = 0
    names = {participant_name(index): index for index in range(participants)}
    channels: dict[int, Channel] = {}
    complete = asyncio.Event()

    def arrived(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        index = names.get(_peer(writer))
        if index is None or index in channels:
            writer.close()
            return
        channels[index] = reader, writer
        if len(channels) == participants:
            complete.set()

    server = await asyncio.start_server(
        arrived, sock=listener, ssl=context, ssl_handshake_timeout=HANDSHAKE_SECONDS
    )
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await complete.wait()
        server.close()
        if len(channels) < participants:
            raise DroppedOutError(set(range(participants)) - set(channels), "votes")
        yield channels
    finally:
        for _, writer in channels.values():
            writer.transport.abort()  # not `close`, which waits for an answer


def _peer(writer: asyncio.StreamWriter) -> str:
    """Return the name in the peer's certificate."""
    entries = writer.get_extra_info("peercert").get("subjectAltName", ())
    names = [str(value) for kind, value in entries if kind == "DNS"]
    return names[0] if len(names) == 1 else ""


async def send(channel: Channel, message: bytes) -> None:
    """Send a message; raise one of `GONE` if the other side has left."""
    _, writer = channel
    writer.write(len(message).to_bytes(4, "big") + message)
    await writer.drain()


async def receive(channel: Channel, size: int) -> bytes:
    """Return the next message, which must have `size` bytes.

    Raises:
        MessageError: another length is announced.
        OSError: the connection is broken.
        EOFError: the other side has left before all of it was there.
    """
    reader, _ = channel
    announced = int.from_bytes(await reader.readexactly(4), "big")
    if announced != size:
        raise MessageError(f"a message of {announced} bytes where one of {size} is due")
    return await reader.readexactly(size)
