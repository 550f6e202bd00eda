"""The benchmark: its parts, one after the other, and what they were measured on."""

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
from tqdm import tqdm

from cemlib.bench.attack import attack
from cemlib.bench.client import client
from cemlib.bench.floor import matrix_rates
from cemlib.bench.metrics import metrics
from cemlib.bench.preparation import preparation
from cemlib.bench.scale import CLASSES, PARTS, Scale
from cemlib.bench.scaling import scaling
from cemlib.bench.start_up import start_up
from cemlib.bench.subject import feature_dim
from cemlib.bench.surrogates import fits, surrogates
from cemlib.bench.training import training
from cemlib.provenance import device_name, git_state

MEASURED: dict[str, Callable[[Scale], dict[str, Any]]] = {
    "training": training,
    "surrogates": surrogates,
    "fits": fits,
    "client": client,
    "attack": attack,
    "metrics": metrics,
    "preparation": preparation,
    "start_up": start_up,
    "scaling": scaling,
}


def bench(scale: Scale, parts: Sequence[str] = PARTS) -> dict[str, Any]:
    """The figures of some parts by name, as plain numbers; `timing` says what is in them.

    Beside them `machine`, `scale`, `seconds` (what measuring each part took) and `matrix_rates`,
    the FLOP/s of large matrix products that every floor rests on.
    """
    torch.manual_seed(0)
    found: dict[str, Any] = {
        "machine": _machine(scale),
        "scale": asdict(scale) | {"dim": feature_dim(scale), "classes": CLASSES},
        "matrix_rates": matrix_rates(scale.device, scale.threads),
        "seconds": {},
    }
    for name in tqdm([name for name in PARTS if name in parts], unit="part", disable=None):
        start = time.perf_counter()
        found[name] = MEASURED[name](scale)
        found["seconds"][name] = time.perf_counter() - start
    return found


def _machine(scale: Scale) -> dict[str, Any]:
    return {
        "device": device_name(scale.device),
        "processor": torch.cpu.get_capabilities().get("cpu_name", platform.machine()),
        "threads": scale.threads,
        "torch": torch.__version__,
        "python": platform.python_version(),
        **git_state(),
    }
