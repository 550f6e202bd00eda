"""Be one party of a round, as `python -m cemlib.labelling.process`; its input says which.

The description is one JSON object; secrets come that way because a command line is seen by every
user of the machine. On its standard output a party says, a JSON object to a line, what it has done.
"""

import json
import socket
import ssl
import sys
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cemlib.labelling.channels import (
    HOST,
    Deadline,
    accept_all,
    close_all,
    connect,
    hang_up,
    receive,
    send,
)
from cemlib.labelling.errors import DroppedOutError, LabellingError, MessageError
from cemlib.labelling.messages import Kind, Round
from cemlib.labelling.paillier import PublicKey
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.setting import Setting
from cemlib.labelling.sharing import KeyShare


def describe(round_: Round) -> dict[str, Any]:
    """Return a round as JSON values."""
    return {
        "n": f"{round_.public.n:x}",
        "base": f"{round_.public.base:x}",
        "setting": asdict(round_.setting),
        "queries": round_.queries,
        "nonce": round_.nonce.hex(),
    }


def understand(description: dict[str, Any]) -> Round:
    """Return the round of a description; its parts check themselves."""
    public = PublicKey(int(description["n"], 16), int(description["base"], 16))
    setting = Setting(**description["setting"])
    return Round(public, setting, description["queries"], bytes.fromhex(description["nonce"]))


def say(**values: Any) -> None:
    """Print what was done, one JSON object to a line."""
    print(json.dumps(values), flush=True)


def take_part(job: dict[str, Any]) -> None:
    """Be a participant: vote, wait for the sums, decrypt one's part."""
    round_, deadline = understand(job["round"]), Deadline(job["seconds"])
    share = KeyShare(
        job["index"], round_.setting.participants, int(job["share"], 16), round_.public.fingerprint
    )
    party = Participant(round_, share, np.array(job["votes"], np.int64), job["noise_seed"])
    try:
        with connect(Path(job["folder"]), share.index, job["port"], deadline.left()) as channel:
            send(channel, party.vote(), deadline)
            say(done="voted")
            request = receive(channel, round_.size(Kind.REQUEST), deadline)
            send(channel, party.partial(request), deadline)
            say(done="decrypted")
    except OSError as error:
        say(void=f"participant {share.index}: the aggregator is gone or ended the round: {error}")
        sys.exit(1)
    except LabellingError as error:
        say(error=str(error))
        sys.exit(1)


def serve(job: dict[str, Any]) -> None:
    """Be the aggregator: say the port, then the tallies or what went wrong."""
    round_, deadline = understand(job["round"]), Deadline(job["seconds"])
    aggregator = Aggregator(round_)
    with socket.create_server((HOST, 0)) as listener:
        say(port=listener.getsockname()[1])
        try:
            collect(aggregator, listener, Path(job["folder"]), deadline)
            say(counts=aggregator.counts().tolist())
        except DroppedOutError as error:
            say(gone=error.gone, phase=error.phase)
        except LabellingError as error:
            say(error=str(error))


def collect(
    aggregator: Aggregator, listener: socket.socket, folder: Path, deadline: Deadline
) -> None:
    """Carry out a round over sockets; every channel is closed at its end, whatever happened."""
    setting = aggregator.view.round.setting
    channels = accept_all(listener, folder, setting.participants, deadline)
    try:
        for index, message in _hear_all(aggregator, channels, Kind.VOTE, deadline).items():
            aggregator.receive_vote(index, message)
        request = aggregator.request()
        for index, channel in channels.items():
            _ask(channel, index, request, deadline)
        for index, message in _hear_all(aggregator, channels, Kind.PARTIAL, deadline).items():
            aggregator.receive_partial(index, message)
    finally:
        close_all(channels)


def _ask(channel: ssl.SSLSocket, index: int, request: bytes, deadline: Deadline) -> None:
    try:
        send(channel, request, deadline)
    except OSError as error:
        raise DroppedOutError([index], "decryption") from error


def _hear_all(
    aggregator: Aggregator, channels: dict[int, ssl.SSLSocket], kind: Kind, deadline: Deadline
) -> dict[int, bytes]:
    """Return everybody's message; all channels are listened to at once.

    So who is gone is known when it goes, and nobody slow is taken for gone in its place.
    """
    size = aggregator.view.round.size(kind)
    with ThreadPoolExecutor(len(channels)) as pool:
        heard = {i: pool.submit(receive, c, size, deadline) for i, c in channels.items()}
        done, _ = wait(heard.values(), return_when=FIRST_EXCEPTION)
        failed = {i: future.exception() for i, future in heard.items() if future in done}
        faults = {i: fault for i, fault in failed.items() if fault is not None}
        if faults:
            hang_up(channels)
    for index, fault in faults.items():
        if not isinstance(fault, OSError):
            raise MessageError(f"participant {index}: {fault}") from fault
    if faults:
        raise DroppedOutError(faults, "votes" if kind is Kind.VOTE else "decryption")
    return {index: future.result() for index, future in heard.items()}


if __name__ == "__main__":
    JOB = json.load(sys.stdin)
    {"aggregator": serve, "participant": take_part}[JOB["role"]](JOB)
