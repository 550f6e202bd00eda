"""Act as one party of a round: `python -m cemlib.labelling.process`.

The process reads a JSON object on its standard input, which names the party and holds its secrets:
every user of the machine can see a command line. On its standard output it reports what it has
done, one JSON object to a line.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cemlib.labelling.channels import GONE, HOST, Channel, accepted, connect, receive, send
from cemlib.labelling.errors import DroppedOutError, LabellingError, MessageError
from cemlib.labelling.messages import Kind, Round
from cemlib.labelling.paillier import PublicKey
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.setting import Setting
from cemlib.labelling.sharing import KeyShare


def read_round(plain: dict[str, Any]) -> Round:
    """Return a round from its fields as JSON values; its parts check themselves."""
    public, setting = PublicKey(**plain["public"]), Setting(**plain["setting"])
    return Round(public, setting, plain["queries"], plain["nonce"])


def say(**values: Any) -> None:
    """Print what was done as one line of JSON."""
    print(json.dumps(values), flush=True)


async def take_part(job: dict[str, Any]) -> int:
    """Act as a participant: vote, and decrypt one part of the sums; return the exit code."""
    share, votes = KeyShare(**job["share"]), np.array(job["votes"], np.int64)
    party = Participant(read_round(job["round"]), share, votes, job["noise_seed"])
    try:
        async with asyncio.timeout(job["seconds"]):
            channel = await connect(Path(job["folder"]), share.index, job["port"])
            await send(channel, party.vote())
            say(done="voted")
            request = await receive(channel, party.view.round.size(Kind.REQUEST))
            await send(channel, party.partial(request))
            say(done="decrypted")
    except GONE as error:
        say(void=f"participant {share.index}: the aggregator is gone or ended the round: {error}")
        return 1
    except LabellingError as error:
        say(error=str(error))
        return 1
    _, writer = channel
    writer.close()
    with suppress(OSError):  # the aggregator may have left: it has everything
        await writer.wait_closed()
    return 0


async def serve(job: dict[str, Any]) -> int:
    """Act as the aggregator: report the port, then the tallies or what went wrong."""
    aggregator = Aggregator(read_round(job["round"]))
    with socket.create_server((HOST, 0)) as listener:
        say(port=listener.getsockname()[1])
        try:
            await collect(aggregator, listener, Path(job["folder"]), job["seconds"])
            say(counts=aggregator.counts().tolist())
        except DroppedOutError as error:
            say(gone=error.gone, phase=error.phase)
        except LabellingError as error:
            say(error=str(error))
    return 0


async def collect(
    aggregator: Aggregator, listener: socket.socket, folder: Path, seconds: float
) -> None:
    """Carry out the aggregator's side of a round over sockets, up to the partial decryptions.

    A participant who is silent until so many seconds from now is taken to be gone.

    Raises:
        DroppedOutError: a participant is gone.
        MessageError: what a participant sent is no message of this round.
    """
    round_, deadline = aggregator.view.round, asyncio.get_running_loop().time() + seconds
    votes, parts = round_.size(Kind.VOTE), round_.size(Kind.PARTIAL)
    async with accepted(listener, folder, round_.setting.participants, deadline) as channels:
        heard = {i: receive(channel, votes) for i, channel in channels.items()}
        for index, message in (await _all_of(heard, deadline, "votes")).items():
            aggregator.receive_vote(index, message)
        request = aggregator.request()
        heard = {i: _ask(channel, request, parts) for i, channel in channels.items()}
        for index, message in (await _all_of(heard, deadline, "decryption")).items():
            aggregator.receive_partial(index, message)


async def _ask(channel: Channel, request: bytes, size: int) -> bytes:
    await send(channel, request)
    return await receive(channel, size)


async def _all_of(
    heard: dict[int, Coroutine[Any, Any, bytes]], deadline: float, phase: str
) -> dict[int, bytes]:
    """Return every participant's message, all awaited at once; end with the first that fails.

    A participant that leaves is therefore named at once, and a slow one is not named in its place.
    """
    tasks = {index: asyncio.create_task(message) for index, message in heard.items()}
    left = deadline - asyncio.get_running_loop().time()
    done, _ = await asyncio.wait(tasks.values(), timeout=left, return_when=asyncio.FIRST_EXCEPTION)
    faults = {i: fault for i, t in tasks.items() if t in done and (fault := t.exception())}
    for index, fault in faults.items():
        if not isinstance(fault, GONE):
            raise MessageError(f"participant {index}: {fault}") from fault
    if gone := faults or {i for i, t in tasks.items() if t not in done}:
        raise DroppedOutError(gone, phase)
    return {index: task.result() for index, task in tasks.items()}


if __name__ == "__main__":
    JOB = json.load(sys.stdin)
    ROLES = {"aggregator": serve, "participant": take_part}
    sys.exit(asyncio.run(ROLES[JOB["role"]](JOB)))
