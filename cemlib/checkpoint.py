"""Resume checkpoints: one file with everything a killed job needs to end with the same numbers."""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cemlib.files import load_tensors, save_tensors
from cemlib.optim import Optimiser


@dataclass
class Checkpoint:
    """The checkpoint of one job.

    Attributes:
        folder: Its place, whose name holds a hash of everything that decides the job's result, so
            that a checkpoint of other settings is never met.
        interval: Seconds between two writes; how often it is written decides no number.
    """

    folder: Path
    interval: float = 20.0
    _written: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> Path:
        """The file: tensors by name, and the rest as JSON in one of them."""
        return self.folder / "state.safetensors"

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return what the last `save` got, or None where there is nothing to resume."""
        if not self.path.is_file():
            return None
        tensors = load_tensors(self.path)
        text = bytes(tensors.pop(_JSON).tolist())
        return tensors, json.loads(text)

    def save(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Replace the checkpoint, whole or not at all."""
        text = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
        save_tensors(self.path, {**tensors, _JSON: text})
        self._written = time.monotonic()

    def due(self) -> bool:
        """Whether the last write lies long enough back."""
        return time.monotonic() - self._written >= self.interval

    def remove(self) -> None:
        """Delete the checkpoint of a job that is done."""
        if self.folder.exists():
            shutil.rmtree(self.folder)


_JSON = "__json__"


def pack(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Prefix the names of tensors, so that several groups fit into one file."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def unpack(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The group of tensors that `pack` prefixed, under their own names."""
    start = f"{prefix}/"
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def training_state(modules: Mapping[str, nn.Module], optimiser: Optimiser) -> dict[str, Tensor]:
    """All tensors of modules and of their optimiser, by prefixed name."""
    tensors = pack("optimiser", optimiser.state_dict())
    for name, module in modules.items():
        tensors |= pack(name, module.state_dict())
    return tensors


def restore_training(
    tensors: Mapping[str, Tensor], modules: Mapping[str, nn.Module], optimiser: Optimiser
) -> None:
    """Load what `training_state` returned back into the modules and the optimiser."""
    for name, module in modules.items():
        module.load_state_dict(unpack(name, tensors))
    optimiser.load_state_dict(unpack("optimiser", tensors))
