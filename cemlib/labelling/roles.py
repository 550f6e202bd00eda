"""Act as one party of a round on a machine of its own; all parties connect to the aggregator.

    requester    -> aggregator    shape of the images; images
    aggregator   -> participants  shape, nonce and digest of the round; images
    participants -> aggregator    votes, and parts of the decryption, as in `messages`
    aggregator   -> requester     tallies in steps of the noise, 64-bit integers
    requester    -> aggregator    0 bytes: the tallies have arrived

A participant builds the round from its own public parameters and the images that it received, so
the aggregator cannot change noise, key or number of participants, or show other images to some.
"""

import asyncio
import hashlib
import math
import secrets
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling import channels, errors, queries
from cemlib.labelling.channels import Channel, receive, send
from cemlib.labelling.dealing import Public
from cemlib.labelling.errors import REQUESTER, DroppedOutError, LabellingError, MessageError
from cemlib.labelling.messages import Kind, Round
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.queries import SHAPE, Images
from cemlib.labelling.setting import SCALE
from cemlib.labelling.sharing import KeyShare

Classifier: TypeAlias = Callable[[Images], Any]  # class indices (Q,) of images uint8 (Q, C, H, W)
NONCE_BYTES, DIGEST_BYTES = 16, 32


@dataclass(frozen=True)
class Seat:
    """The files, address and time limit of a party, whatever its role."""

    public: Public  # its copy of `public.json`
    tls: ssl.SSLContext  # its TLS context, from `cemlib.labelling.channels.secured`
    address: channels.Address  # host and port of the aggregator
    seconds: float = 600.0  # limit of the round, after which it gives up waiting for the others

    def round(self, images: Images, nonce: bytes) -> Round:
        """Return the round of these images; raise LabellingError if they are too many."""
        own = self.public
        round_ = Round(own.key, own.setting, len(images), nonce.hex())  # checks before the hashing
        digest = hashlib.sha256("".join(queries.digests(images)).encode()).hexdigest()
        return replace(round_, images_digest=digest)


async def request(seat: Seat, images: Images) -> NDArray[np.float64]:
    """Return the noisy tallies (Q, classes) of the votes on images uint8 (Q, C, H, W).

    Raises:
        LabellingError: if images are unsuitable, too large or equal, or the round fails.
    """
    shape, setting = queries.encode_shape(images), seat.public.setting
    if copies := len(images) - len({*queries.digests(images)}):
        raise LabellingError(f"images: {copies} of them are copies of others; leave them out")
    async with channels.connected(seat.tls, seat.address, seat.seconds) as channel:
        await send(channel, shape)
        await send(channel, images.tobytes())
        steps = await receive(channel, 8 * len(images) * setting.classes)
        await send(channel, b"")
    counts: NDArray[np.float64] = np.frombuffer(steps, ">i8") / SCALE
    return counts.reshape(-1, setting.classes)


async def take_part(
    seat: Seat, share: KeyShare, classify: Classifier, ledger: Path, most: int | None = None
) -> int:
    """Vote on the images that arrive, and partially decrypt the sums; return the number of images.

    The ledger gets the images before the part of the decryption is sent, without which nobody can
    read the vote. A round that fails earlier does not use up any images.

    Raises:
        LabellingError: if the round fails or has other public parameters, the ledger refuses the
            images, or the classifier does not return votes.
    """
    queries.enter(ledger, [], dry=True)  # finds an unusable file before the others vote
    async with channels.connected(seat.tls, seat.address, seat.seconds) as channel:
        head = await receive(channel, SHAPE.size + NONCE_BYTES + DIGEST_BYTES)
        shape = queries.decode_shape(head[: SHAPE.size])
        pixels = await receive(channel, math.prod(shape))
        images = np.frombuffer(pixels, np.uint8).reshape(shape)
        round_ = seat.round(images, head[SHAPE.size : -DIGEST_BYTES])
        if round_.digest != head[-DIGEST_BYTES:]:
            raise MessageError(
                "the aggregator has another public.json, or sent other images than it announced"
            )
        party = Participant(round_, share, _votes(classify, images))
        asked = queries.digests(images)
        queries.enter(ledger, asked, most, dry=True)
        await send(channel, party.vote())
        part = party.partial(await receive(channel, round_.size(Kind.REQUEST)))
        queries.enter(ledger, asked, most)
        await send(channel, part)
    return len(images)


def _votes(classify: Classifier, images: Images) -> NDArray[np.int64]:
    """Return the votes on a copy of the images; `Participant` checks them."""
    try:
        return np.asarray(classify(images.copy()))
    except channels.GONE as error:  # would be mistaken for a broken connection
        raise RuntimeError("the classifier failed") from error


async def aggregate(seat: Seat, listener: socket.socket) -> int:
    """Carry out a round, and send its tallies to the requester; return the number of images.

    Raises:
        DroppedOutError: if a participant or the requester drops out.
        MessageError: if one of them sends something that is not a message of this round.
    """
    parties = range(REQUESTER, seat.public.setting.participants)
    deadline = asyncio.get_running_loop().time() + seat.seconds
    async with channels.accepted(listener, seat.tls, parties, deadline) as called:
        requester, voters = {REQUESTER: called[REQUESTER]}, {i: called[i] for i in parties[1:]}
        ask = partial(_answers, deadline)
        shape = (await ask("images", requester, SHAPE.size))[REQUESTER]
        sizes, nonce = queries.decode_shape(shape), secrets.token_bytes(NONCE_BYTES)
        pixels = (await ask("images", requester, math.prod(sizes)))[REQUESTER]
        round_ = seat.round(np.frombuffer(pixels, np.uint8).reshape(sizes), nonce)
        aggregator = Aggregator(round_)
        query = shape + nonce + round_.digest, pixels
        votes = await ask("votes", voters, round_.size(Kind.VOTE), *query)
        for index, vote in votes.items():
            aggregator.receive_vote(index, vote)
        if channels.has_left(requester[REQUESTER]):
            raise DroppedOutError({REQUESTER}, "votes")
        size = round_.size(Kind.PARTIAL)
        for index, part in (await ask("decryption", voters, size, aggregator.request())).items():
            aggregator.receive_partial(index, part)
        steps = np.rint(aggregator.counts() * SCALE).astype(">i8")
        await ask("tallies", requester, 0, steps.tobytes())
    return sizes[0]


async def _answers(
    deadline: float, phase: str, parties: dict[int, Channel], size: int, *messages: bytes
) -> dict[int, bytes]:
    """Send messages to parties and return their answers of `size` bytes; stop at the first failure.

    A party that leaves is therefore named at once, and a slow one is not blamed in its place.
    """

    async def answer(channel: Channel) -> bytes:
        for message in messages:
            await send(channel, message)
        return await receive(channel, size)

    tasks = {index: asyncio.create_task(answer(channel)) for index, channel in parties.items()}
    left = deadline - asyncio.get_running_loop().time()
    done, _ = await asyncio.wait(tasks.values(), timeout=left, return_when=asyncio.FIRST_EXCEPTION)
    faults = {i: fault for i, t in tasks.items() if t in done and (fault := t.exception())}
    for index, fault in faults.items():
        if not isinstance(fault, channels.GONE):
            raise MessageError(f"{errors.party_name(index)}: {fault}") from fault
    if gone := faults or {i for i, t in tasks.items() if t not in done}:
        raise DroppedOutError(gone, phase)
    return {index: task.result() for index, task in tasks.items()}
