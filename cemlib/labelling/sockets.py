"""Carry out one round with every party as a process of its own, over TLS on loopback.

Parties, bytes and, at the same seeds, tallies are those of `protocol.aggregate`; what is added is
that each process has only its own secrets. This process is the dealer and knows all: it
stands for the N machines that a deployment would have.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling.channels import make_certificates
from cemlib.labelling.errors import DroppedOutError, LabellingError
from cemlib.labelling.messages import Round
from cemlib.labelling.process import describe
from cemlib.labelling.protocol import Keys, Setting, check_keys, check_votes, deal, noise_seeds
from cemlib.labelling.sharing import KeyShare

Process = subprocess.Popen[str]


def start(job: dict[str, Any]) -> Process:
    """Start a party and tell it, on its standard input, what it is."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cemlib.labelling.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    with process.stdin:
        json.dump(job, process.stdin)
    process.stdin = None
    return process


def start_aggregator(round_: Round, folder: Path, seconds: float) -> tuple[Process, int]:
    """Start the aggregator; return it and its port."""
    process = start(
        {
            "role": "aggregator",
            "round": describe(round_),
            "folder": str(folder),
            "seconds": seconds,
        }
    )
    return process, int(heard(process)["port"])


def start_participant(
    round_: Round,
    share: KeyShare,
    votes: NDArray[np.int64],
    noise_seed: int | None,
    folder: Path,
    port: int,
    seconds: float,
) -> Process:
    """Start one participant with its own secrets only."""
    job = {"role": "participant", "round": describe(round_), "folder": str(folder)}
    own = {"index": share.index, "share": f"{share.value:x}", "votes": votes.tolist()}
    return start({**job, **own, "noise_seed": noise_seed, "port": port, "seconds": seconds})


def heard(process: Process) -> dict[str, Any]:
    """Return the next thing a party says."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise LabellingError(f"a party's process ended with exit code {process.wait()}")
    said: dict[str, Any] = json.loads(line)
    return said


def result(aggregator: Process) -> NDArray[np.float64]:
    """Return the aggregator's tallies, or raise what it met; it always answers by its deadline."""
    said = heard(aggregator)
    if "gone" in said:
        raise DroppedOutError(said["gone"], said["phase"])
    if "error" in said:
        raise LabellingError(said["error"])
    return np.array(said["counts"])


def stop(processes: list[Process]) -> None:
    """End every process that still runs, and take leave of all."""
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def aggregate_over_sockets(
    votes: NDArray[np.int64],
    setting: Setting,
    keys: Keys | None = None,
    noise: np.random.Generator | None = None,
    seconds: float = 60.0,
) -> NDArray[np.float64]:
    """Return the noisy tallies (queries, classes), as `protocol.aggregate` does.

    Args:
        votes: class indices (queries, participants).
        setting: the round's setting.
        keys: from `deal`; None deals new ones.
        noise: as for `protocol.aggregate`.
        seconds: from the start of the processes, after which who is silent is taken for gone.

    Raises:
        DroppedOutError: a participant is gone; see `cemlib.labelling.protocol`.
        LabellingError: votes, keys, setting or a message do not fit.
    """
    check_votes(votes, setting)
    keys = deal(setting) if keys is None else keys
    check_keys(keys, setting)
    round_ = Round.start(keys.public, setting, len(votes))
    processes: list[Process] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_certificates(folder, setting.participants)
        try:
            aggregator, port = start_aggregator(round_, folder, seconds)
            processes.append(aggregator)
            for share, seed in zip(keys.shares, noise_seeds(setting, noise), strict=True):
                own = votes[:, share.index]
                processes.append(start_participant(round_, share, own, seed, folder, port, seconds))
            return result(aggregator)
        finally:
            stop(processes)
