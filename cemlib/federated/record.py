"""What the records of all jobs of a federated study have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cemlib.federated.plan import FederatedPlan
from cemlib.provenance import device_name, peak_memory_mb, provenance


@dataclass(frozen=True)
class FederatedJob:
    """One job of a study, on a device.

    Attributes:
        plan: Of the study.
        name: What it does: `pseudo`, `train` or `attack`.
        variant: Whose; None for the GANs, which all variants share.
        seed: Its seed.
        device: Where it computes.
    """

    plan: FederatedPlan
    name: str
    variant: str | None
    seed: int
    device: torch.device

    @property
    def title(self) -> str:
        """What it does, for people."""
        return " ".join(filter(None, (self.name, self.variant, f"seed{self.seed}")))

    @property
    def command(self) -> str:
        """What carries it out again."""
        of = f" --variant {self.variant}" if self.variant else ""
        config = self.plan.layout.config
        return f"cemlib federated --config {config} --only {self.name}{of} --seed {self.seed}"

    def record(
        self, reason: str | None, settings: dict[str, Any], sources: Sequence[Path]
    ) -> dict[str, Any]:
        """The part of a record that says what was done, how it ended and what decided it."""
        threads = self.plan.study.threads
        return {
            "status": "ok" if reason is None else "failed",
            "reason": reason,
            "experiment": self.plan.study.experiment,
            "defence": self.variant or "pseudo",
            "seed": self.seed,
            "config": settings,
            "command": self.command,
            "provenance": provenance(sources, device_name(self.device.type), threads),
            "peak_memory_mb": peak_memory_mb(),
        }
