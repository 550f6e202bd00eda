"""Carry out one round with every party as a process of its own, over TLS on loopback.

Parties, messages and, with the same seeds, tallies are those of `protocol.aggregate`. In addition,
each process holds its own secrets alone. Only this process, the dealer, knows all: it stands in for
the N machines of a deployment.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cemlib.labelling.channels import make_certificates
from cemlib.labelling.errors import DroppedOutError, LabellingError
from cemlib.labelling.messages import Round
from cemlib.labelling.protocol import Keys, Setting, start_round

Process = subprocess.Popen[str]


def start(role: str, round_: Round, folder: Path, seconds: float, **secrets: Any) -> Process:
    """Start a party, and tell it its role and its secrets on its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cemlib.labelling.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    public = {"role": role, "round": asdict(round_), "folder": str(folder), "seconds": seconds}
    assert process.stdin is not None
    with process.stdin:
        json.dump(public | secrets, process.stdin)
    return process


def heard(process: Process) -> dict[str, Any]:
    """Return the next thing a party says."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise LabellingError(f"a party's process ended with exit code {process.wait()}")
    said: dict[str, Any] = json.loads(line)
    return said


def result(aggregator: Process) -> NDArray[np.float64]:
    """Return the aggregator's tallies, or raise its error; it always answers by its deadline."""
    said = heard(aggregator)
    if "gone" in said:
        raise DroppedOutError(said["gone"], said["phase"])
    if "error" in said:
        raise LabellingError(said["error"])
    return np.array(said["counts"])


def stop(processes: list[Process]) -> None:
    """End every process that still runs, and wait for all."""
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
    """Return the noisy tallies (queries, classes) of votes, by a process for each party.

    Arguments are those of `protocol.aggregate`, and the seconds from the start of a process until
    it takes a silent party to be gone.

    Raises:
        DroppedOutError: a participant is gone; see `cemlib.labelling.protocol`.
        LabellingError: votes, keys, setting or a message do not fit.
    """
    round_, secrets = start_round(votes, setting, keys, noise)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_certificates(folder, setting.participants)
        aggregator = start("aggregator", round_, folder, seconds)
        processes = [aggregator]
        try:
            port = heard(aggregator)["port"]
            for share, own, seed in secrets:
                told = {"share": asdict(share), "votes": own.tolist(), "noise_seed": seed}
                party = start("participant", round_, folder, seconds, port=port, **told)
                processes.append(party)
            return result(aggregator)
        finally:
            stop(processes)
