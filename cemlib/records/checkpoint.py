"""Resume checkpoints: one file with everything a killed job needs to end with the same numbers.

The file is a SHA-256 checksum followed by tensors by name (safetensors), one of which holds JSON
that names the job. A damaged file, or another job's, is ignored with a message: the job begins
again, and never goes on from wrong numbers.
"""

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.optim import Optimiser
from cemlib.records.files import FileError, write_bytes, write_jsonl
from cemlib.records.progress import progress

Part = nn.Module | Optimiser
State = tuple[dict[str, Tensor], dict[str, Any]]
_JSON = "__json__"  # name of the tensor that holds JSON
_CHECKSUM = hashlib.sha256().digest_size


@dataclass
class Checkpoint:
    """The checkpoint of one job.

    Attributes:
        folder: Its folder, whose name holds a hash of everything that decides the job's result.
        interval: Least number of seconds between two writes; it does not affect any result.
    """

    folder: Path
    interval: float = 20.0
    _written: float = field(default_factory=time.monotonic)
    _kept: State | None = None

    @property
    def path(self) -> Path:
        """Return the file."""
        return self.folder / "state.checkpoint"

    @property
    def job(self) -> str:
        """Return the job's name inside the file, the last two parts of the folder's path."""
        return "/".join(self.folder.parts[-2:])

    def load(self) -> State | None:
        """Return what was saved last, or None; a line on standard error says if it is unusable."""
        if not self.path.is_file():
            return None
        try:
            return self._read()
        except FileError as error:
            told = "it is ignored, and the job starts from the beginning"
            print(f"{error}; {told}", file=sys.stderr, flush=True)
            return None

    def save(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Replace the checkpoint atomically."""
        text = json.dumps({"job": self.job, "state": state}).encode()
        together = {**tensors, _JSON: torch.frombuffer(bytearray(text), dtype=torch.uint8)}
        content = to_bytes({name: t.detach().cpu().contiguous() for name, t in together.items()})
        write_bytes(self.path, hashlib.sha256(content).digest() + content)
        self._written = time.monotonic()

    def keep(self, state: State) -> None:
        """Keep a state, which must not change any more, and write it if the interval has passed."""
        self._kept = state
        if time.monotonic() - self._written >= self.interval:
            self.write_kept()

    @contextmanager
    def written_when_interrupted(self) -> Iterator[None]:
        """Write the state kept last if Ctrl-C or SIGTERM interrupts the context."""
        try:
            yield
        except KeyboardInterrupt:
            self.write_kept()
            raise

    def remove(self) -> None:
        """Delete the checkpoint of a job that is done."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def write_kept(self) -> None:
        """Write the state kept last, if it has not been written yet."""
        if self._kept is not None:
            self.save(*self._kept)
            self._kept = None

    def _read(self) -> State:
        content = self.path.read_bytes()
        if hashlib.sha256(content[_CHECKSUM:]).digest() != content[:_CHECKSUM]:
            raise FileError(f"{self.path}: damaged (its checksum differs)")
        try:
            tensors = from_bytes(content[_CHECKSUM:])
        except SafetensorError as error:  # somebody forged the checksum
            raise FileError(f"{self.path}: not a safetensors file ({error})") from error
        found = json.loads(bytes(tensors.pop(_JSON).tolist()))
        if found["job"] != self.job:
            raise FileError(f"{self.path}: belongs to another job ({found['job']})")
        return tensors, found["state"]


class Learner(Protocol):
    """A training in epochs or rounds that `Resumed` can carry out."""

    history: list[dict[str, Any]]

    def epoch(self, number: int) -> dict[str, Any]:
        """Carry out an epoch or round, counted from 1, and return its row of the history."""

    def state(self) -> State:
        """Return a copy of what a killed job needs to resume, besides the history."""

    def restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue from such a state; the history has been set already."""


@dataclass
class Resumed:
    """The training of a learner to its end, from its checkpoint if there is one.

    `start` is when the job began, by `time.perf_counter`, minus the time of killed jobs.
    """

    learner: Learner
    checkpoint: Checkpoint
    start: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        found = self.checkpoint.load()
        if found is not None:
            tensors, state = found
            self.start -= float(state["spent"])
            self.learner.history = state["history"]
            self.learner.restore(tensors, state)

    @property
    def seconds(self) -> float:
        """Return the seconds spent so far, those of killed jobs included."""
        return time.perf_counter() - self.start

    def remaining(self, title: str, total: int, shown: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Carry out the epochs left of `total`, yielding each row before its state is kept.

        The progress shows the `title`, and the columns `shown` of the history.
        """
        learner = self.learner
        report = progress(title, total, len(learner.history))
        for number in range(len(learner.history) + 1, total + 1):
            row = learner.epoch(number)
            yield row
            tensors, state = learner.state()
            known = {"history": [*learner.history], "spent": self.seconds}
            self.checkpoint.keep((tensors, state | known))
            report(number, {name: row[name] for name in shown})

    def finish(self, title: str, total: int, shown: Sequence[str], history: Path) -> str | None:
        """Carry out the remaining epochs and write the history; return why it failed, or None."""
        try:
            for _ in self.remaining(title, total, shown):
                write_jsonl(history, self.learner.history)
        except DivergedError as error:
            return str(error)
        return None


def pack(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Prefix the names of tensors, so that several groups fit into one file."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def unpack(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the group of tensors that `pack` prefixed, under their own names."""
    start = f"{prefix}/"
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors, so that they stay as they are while the training goes on."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def training_state(parts: Mapping[str, Part]) -> dict[str, Tensor]:
    """Return copies of all tensors of modules and optimisers, by prefixed name."""
    tensors: dict[str, Tensor] = {}
    for name, part in parts.items():
        tensors |= pack(name, part.state_dict())
    return copied(tensors)


def restore_training(tensors: Mapping[str, Tensor], parts: Mapping[str, Part]) -> None:
    """Load what `training_state` returned into the modules and optimisers."""
    for name, part in parts.items():
        part.load_state_dict(unpack(name, tensors))
