"""What a process has in memory before its job's own tensors: measured in this one."""

import importlib
import importlib.util
import os
from pathlib import Path

import torch
from torch.nn import functional as F

from cemlib.models import build

PAGE = os.sysconf("SC_PAGE_SIZE")
STATM = Path("/proc/self/statm")
# Libraries that a source's images are read with; the others need none but Pillow.
LIBRARIES = {"digits": "sklearn.datasets", "folder": "PIL.Image"}
OF_PREPARING = ("cemlib.data.prepare", "safetensors.torch")
OF_TRAINING = ("cemlib.training.job", "safetensors.torch")
OF_ATTACKS = ("cemlib.evaluation.job", "pyarrow.parquet", "PIL.Image")


def resident() -> int:
    """Bytes of this process in memory now; 0 where the system does not say."""
    try:
        return int(STATM.read_text().split()[1]) * PAGE
    except FileNotFoundError:
        return 0


class Bare:
    """Processes that have imported what a job imports, and computed a little.

    Each part is imported here and weighed by what this process grows by. The order is from what all
    jobs have to what few have, since a library that two need is weighed with the first.

    Attributes:
        train: bytes of a training before its first tensor.
        attack: those of an attack.
        prepare: those of the preparation.
    """

    def __init__(self, source: str, device: str) -> None:
        _import(OF_PREPARING)
        common = resident()
        _import(OF_TRAINING)
        _compute(device)
        self.train = resident()
        _import(OF_ATTACKS)
        self.attack = resident()
        _import([LIBRARIES.get(source, "torchvision")])
        self.prepare = common + resident() - self.attack


def _import(modules: tuple[str, ...] | list[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def _compute(device: str) -> None:
    """A step of a small network: libraries load and make much at their first use."""
    torch.manual_seed(0)
    usable = torch.device("cuda" if device == "cuda" and torch.cuda.is_available() else "cpu")
    network = build("small", num_classes=2, image_size=16, cut=3, mean=(0.5,), std=(0.5,))
    network.to(usable).to(memory_format=torch.channels_last)
    images = torch.zeros(2, 1, 16, 16, device=usable).contiguous(memory_format=torch.channels_last)
    labels = torch.zeros(2, dtype=torch.long, device=usable)
    F.cross_entropy(network(images), labels).backward()  # type: ignore[no-untyped-call]
    square = torch.eye(8, dtype=torch.float64)
    torch.linalg.cholesky(torch.linalg.solve(square, square))
