"""Share what all jobs of a federated study do: resume, keep checkpoints, and write records."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from cemlib.config.federated import Variant
from cemlib.data.prepared import checksum
from cemlib.errors import DivergedError
from cemlib.records.checkpoint import Checkpoint, copied
from cemlib.records.files import write_jsonl
from cemlib.records.layout import RunFolder
from cemlib.records.progress import progress
from cemlib.records.seal import RECORD, write_sealed
from cemlib.study.federated import FederatedJob


def variant_of(job: FederatedJob) -> Variant:
    """Return the settings of a job's variant."""
    return job.plan.study.variants[job.of["variant"]]


def run_of(job: FederatedJob) -> RunFolder:
    """Return the folder of the training that a job is, or attacks."""
    return job.plan.layout.run(job.of["variant"], job.of["seed"])


def write_record(
    job: FederatedJob, kind: str, reason: str | None, found: dict[str, Any], files: Iterable[Path]
) -> None:
    """Write the record of a job, after its other files.

    Args:
        job: The job.
        kind: of the record.
        reason: why the job failed, or None.
        found: scores, and whatever else the record has.
        files: all files of the result; the one named metrics.json is the record.
    """
    record = {
        "kind": kind,
        "defence": job.of.get("variant", "pseudo"),
        "seed": job.of["seed"],
        "command": job.command,
        **found,
        "data_sha256": checksum(job.plan.layout.data),
        **job.record(reason),
    }
    (metrics,) = (file for file in files if file.name == RECORD)
    write_sealed(metrics, record, [file for file in files if file != metrics])


class Learner(Protocol):
    """Say what `Resumed` trains: rounds of clients, or epochs of their GANs."""

    history: list[dict[str, Any]]

    def remaining(self) -> Iterator[dict[str, Any]]:
        """Carry out what is left, yielding a row of the history after each round or epoch."""

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a killed job resumes from."""

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from such tensors."""


@dataclass
class Resumed:
    """Train a learner to its end, from its checkpoint if there is one.

    Attributes:
        learner: What is trained.
        checkpoint: Of the job.
        start: When the job began, by `time.perf_counter`; earlier by what killed jobs took.
    """

    learner: Learner
    checkpoint: Checkpoint
    start: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        found = self.checkpoint.load()
        if found is not None:
            tensors, state = found
            self.learner.restore(tensors)
            self.learner.history = state["history"]
            self.start -= float(state["spent"])

    @property
    def seconds(self) -> float:
        """Return the time spent so far, by killed jobs too."""
        return time.perf_counter() - self.start

    def finish(self, title: str, total: int, history: Path, shown: Sequence[str]) -> str | None:
        """Carry out what is left, of so many in total; return why it failed, or None."""
        learner = self.learner
        with progress(title, total, len(learner.history)) as report:
            try:
                for row in learner.remaining():
                    write_jsonl(history, learner.history)
                    facts = {"history": [*learner.history], "spent": self.seconds}
                    state = (copied(learner.state()), facts)
                    self.checkpoint.keep(lambda state=state: state)  # type: ignore[misc]
                    report(row["epoch"], {name: row[name] for name in shown})
            except DivergedError as error:
                return str(error)
        return None
