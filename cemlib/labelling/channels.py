"""Connect parties over TCP with TLS 1.3 and certificates on both sides.

The subjectAltName of its certificate identifies a party: `aggregator`, `requester` or
`participant-<i>`. On the wire, a message is its length (4 bytes, big-endian) followed by its bytes.
The receiver knows which length to expect, and rejects any other before it reads further.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from cemlib.labelling.errors import DroppedOutError, LabellingError, MessageError, party_name
from cemlib.records.files import FileError

Address: TypeAlias = tuple[str, int]
Channel: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GONE = (OSError, EOFError)  # raised when the other side has disconnected, or time is up
HANDSHAKE_SECONDS = CLOSE_SECONDS = 5.0


def secured(certificate: Path, authority: Path, *, server: bool) -> ssl.SSLContext:
    """Return the TLS context of a party's connections.

    Raises:
        FileError: if a file has no certificate in PEM, or the party's own lacks the private key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    for load, file in (
        (context.load_verify_locations, authority),
        (context.load_cert_chain, certificate),
    ):
        try:
            load(file)
        except OSError as error:
            need = "a certificate in PEM, the party's own with its private key"
            raise FileError(f"{file}: cannot be read as {need}: {error}") from error
    return context


@asynccontextmanager
async def connected(
    tls: ssl.SSLContext, address: Address, seconds: float
) -> AsyncIterator[Channel]:
    """Yield a channel to the aggregator, after verifying its certificate, and close it on exit.

    Raises:
        LabellingError: if the aggregator disconnects, or the exchange takes more than `seconds`.
    """
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(
                *address, ssl=tls, server_hostname="aggregator", ssl_shutdown_timeout=CLOSE_SECONDS
            )
            try:
                yield reader, writer
                writer.close()
                with suppress(OSError):  # the aggregator may have left: it has everything
                    await writer.wait_closed()
            finally:
                writer.transport.abort()
    except GONE as error:
        reason = str(error) or f"not done after {seconds:g} seconds"
        place = "{}:{}".format(*address)
        raise LabellingError(
            f"the aggregator at {place} is gone, or ended the round, or has a newer connection of"
            f" this party, or expects no party of the certificate's name: {reason}"
        ) from error


@asynccontextmanager
async def accepted(
    listener: socket.socket, tls: ssl.SSLContext, parties: Collection[int], deadline: float
) -> AsyncIterator[dict[int, Channel]]:
    """Yield a channel to each party, identified by its certificate, and close them all on exit.

    Handshakes run concurrently, so that a silent caller delays nobody. A caller is turned away
    unless its certificate names exactly one of the parties, and not the aggregator. Until all have
    arrived, a party may connect again: its newest connection counts, since an older one is not seen
    to be closed while it holds more than a buffer of unread data.

    Raises:
        DroppedOutError: if some are missing at the deadline, a time of the event loop's clock.
    """
    tls.num_tickets = 0
    names = {party_name(index): index for index in parties}
    channels: dict[int, Channel] = {}
    complete = asyncio.Event()

    def arrived(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        entries = writer.get_extra_info("peercert").get("subjectAltName", ())
        called = {str(value) for kind, value in entries if kind == "DNS"}
        found = names.keys() & called
        if len(found) != 1 or "aggregator" in called or complete.is_set():
            writer.close()
            return
        for gone in [i for i, channel in channels.items() if has_left(channel)]:
            del channels[gone]
        index = names[found.pop()]
        if index in channels:
            channels[index][1].transport.abort()
        channels[index] = reader, writer
        if len(channels) == len(names):
            complete.set()

    server = await asyncio.start_server(
        arrived, sock=listener, ssl=tls, ssl_handshake_timeout=HANDSHAKE_SECONDS
    )
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await complete.wait()
        server.close()
        if len(channels) < len(names):
            raise DroppedOutError(set(parties) - set(channels), "votes")
        yield channels
    finally:
        for _, writer in channels.values():
            writer.transport.abort()  # not `close`, which waits for an answer


def has_left(channel: Channel) -> bool:
    """Return whether the other side is known to have disconnected."""
    reader, writer = channel
    return writer.transport.is_closing() or reader.exception() is not None


async def send(channel: Channel, message: bytes) -> None:
    """Send a message; raise one of `GONE` if the other side has disconnected."""
    _, writer = channel
    writer.write(len(message).to_bytes(4, "big") + message)
    await writer.drain()


async def receive(channel: Channel, size: int) -> bytes:
    """Return the next message; raise MessageError for a wrong length, one of `GONE` if cut off."""
    reader, _ = channel
    announced = int.from_bytes(await reader.readexactly(4), "big")
    if announced != size:
        raise MessageError(f"expected a message of {size} bytes, got {announced}")
    return await reader.readexactly(size)
