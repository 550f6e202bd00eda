"""Share what all jobs of a federated study do: resume, keep checkpoints, and write records."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from cemlib.checkpoint import Checkpoint, copied
from cemlib.config.federated import Variant
from cemlib.data.prepared import checksum
from cemlib.errors import DivergedError
from cemlib.federated.plan import FederatedPlan
from cemlib.files import write_jsonl
from cemlib.layout import RunFolder
from cemlib.progress import progress
from cemlib.provenance import device_name, peak_memory_mb, provenance
from cemlib.seal import write_sealed


@dataclass(frozen=True)
class FederatedJob:
    """Name one job of a study, on a device.

    Attributes:
        plan: The study's plan.
        name: `pseudo`, `train` or `attack`.
        variant: The variant; None for the GANs, which all variants share.
        seed: The seed.
        device: Where it computes.
    """

    plan: FederatedPlan
    name: str
    variant: str | None
    seed: int
    device: torch.device

    @property
    def title(self) -> str:
        """Return what it does, for people."""
        return " ".join(filter(None, (self.name, self.variant, f"seed{self.seed}")))

    @property
    def settings(self) -> Variant:
        """Return the settings of its variant."""
        return self.plan.study.variants[str(self.variant)]

    @property
    def run(self) -> RunFolder:
        """Return the folder of its training."""
        return self.plan.run(str(self.variant), self.seed)

    def write(
        self,
        kind: str,
        reason: str | None,
        settings: dict[str, Any],
        sources: Sequence[Path],
        found: dict[str, Any],
        files: Iterable[Path],
    ) -> dict[str, Any]:
        """Write the record of a job, after its other files; return it.

        Args:
            kind: of the record.
            reason: why the job failed, or None.
            settings: that decided it.
            sources: source files that decided it.
            found: scores, and whatever else the record has.
            files: all files of the result; the one named metrics.json is the record.
        """
        config, threads = self.plan.layout.config, self.plan.study.threads
        variant = f" --variant {self.variant}" if self.variant else ""
        command = f"cemlib federated --config {config} --only {self.name}{variant}"
        record = {
            "kind": kind,
            "status": "ok" if reason is None else "failed",
            "reason": reason,
            "experiment": self.plan.study.experiment,
            "defence": self.variant or "pseudo",
            "seed": self.seed,
            "config": settings,
            "command": f"{command} --seed {self.seed}",
            "provenance": provenance(sources, device_name(self.device.type), threads),
            "peak_memory_mb": peak_memory_mb(),
            **found,
            "data_sha256": checksum(self.plan.layout.data),
        }
        (metrics,) = (file for file in files if file.name == "metrics.json")
        write_sealed(metrics, record, [file for file in files if file != metrics])
        return record


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
