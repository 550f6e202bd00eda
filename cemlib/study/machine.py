"""Whether a machine has what a study needs: programs, libraries, devices and memory."""

import importlib
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from cemlib.records.provenance import git_state

OLDEST_PYTHON = (3, 11)
NEEDED = ("torch", "torchvision")  # imported: a pair that does not fit fails there
WORKFLOW = {
    "snakemake": "`cemlib run` carries out a study without it",
    "mlflow": "only `cemlib track` needs it",
}
PROGRAMS = {
    "git": "results will not say which commit made them",
    "make": "`make results` and `make test` are not to be had; the README has the same by hand",
}
JOB_MEMORY = 1.5 * 2**30  # of a job with torch, whatever the study


class Level(Enum):
    """Tell how bad a finding is: a warning stops no study, a problem does."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


OK, WARNING, PROBLEM = Level


class Finding(NamedTuple):
    """Say what was looked at, what was found, and what to do about it."""

    level: Level
    subject: str
    found: str
    advice: str = ""


def machine(own: str) -> Iterator[Finding]:
    """Yield all findings that no study decides; `own` is the version of cemlib."""
    yield _python()
    yield _own_version(own)
    libraries = {name: _imported(name) for name in NEEDED}
    for name, found in libraries.items():
        yield _library(name, found)
    yield from (_installed(name, without) for name, without in WORKFLOW.items())
    if isinstance(libraries["torch"], ModuleType):
        yield from _devices()
    yield _memory()
    yield from (_program(name, without) for name, without in PROGRAMS.items())


def _python() -> Finding:
    found, oldest = platform.python_version(), ".".join(map(str, OLDEST_PYTHON))
    if sys.version_info < OLDEST_PYTHON:
        return Finding(PROBLEM, "python", found, f"install Python {oldest} or newer")
    return Finding(OK, "python", f"{found}, {sys.executable}")


def _own_version(own: str) -> Finding:
    state = git_state()
    changed = ", with changes that are not committed" if state["dirty"] else ""
    return Finding(OK, "cemlib", f"{own}, commit {state['commit'][:12]}{changed}")


def _imported(name: str) -> ModuleType | Exception:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a broken library raises anything; it is what we look for
        return error


def _library(name: str, found: ModuleType | Exception) -> Finding:
    if isinstance(found, ModuleType):
        return Finding(OK, name, version(name))
    reason = " ".join(f"{type(found).__name__}: {found}".split())[:200]
    advice = f"install {' and '.join(NEEDED)} anew, together: make .venv/ready, or pip"
    return Finding(PROBLEM, name, f"cannot be imported ({reason})", advice)


def _installed(name: str, without: str) -> Finding:
    try:
        return Finding(OK, name, version(name))
    except PackageNotFoundError:
        return Finding(WARNING, name, "not installed", f"pip install 'cemlib[workflow]'; {without}")


def _devices() -> Iterator[Finding]:
    import torch

    from cemlib.numerics.precision import multiplies_bfloat16

    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        found = f"{properties.name}, {_gib(properties.total_memory)}"
        yield Finding(OK, f"device cuda:{number}", found)
    if not torch.cuda.is_available():
        yield Finding(OK, "device", "cpu; torch finds no usable CUDA device")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    fast = "yes" if multiplies_bfloat16(device) else "no; `precision: auto` will be float32"
    yield Finding(OK, "bfloat16", f"{fast} ({device.type})")
    yield _threads(torch.get_num_threads())


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux alone
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _threads(threads: int) -> Finding:
    cores = usable_cores()
    setting = os.environ.get("OMP_NUM_THREADS", "not set")
    found = f"torch uses {threads} of {cores} cores (OMP_NUM_THREADS {setting})"
    if threads > cores:
        return Finding(WARNING, "threads", found, f"set OMP_NUM_THREADS to {cores} or less")
    return Finding(OK, "threads", f"{found}; a job takes what the study's key `threads` says")


def _memory() -> Finding:
    free = available_memory()
    if free is None:
        return Finding(OK, "memory", "unknown on this system")
    if free < JOB_MEMORY:
        advice = f"a job needs about {_gib(JOB_MEMORY)}: end other programs"
        return Finding(WARNING, "memory", f"{_gib(free)} available", advice)
    return Finding(OK, "memory", f"{_gib(free)} available")


def available_memory(
    system: Path = Path("/proc"), group: Path = Path("/sys/fs/cgroup")
) -> float | None:
    """Return the bytes that Linux and the control group leave; None where neither says.

    Args:
        system: where `meminfo` lies.
        group: folder of the control group (version 2) of this process.
    """
    amounts = []
    if (system / "meminfo").is_file():
        lines = (system / "meminfo").read_text().splitlines()
        kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
        amounts += [float(kib) * 1024] if kib else []
    limit, used = group / "memory.max", group / "memory.current"
    if limit.is_file() and used.is_file() and limit.read_text().strip() != "max":
        amounts.append(float(limit.read_text()) - float(used.read_text()))
    return min(amounts, default=None)


def _program(name: str, without: str) -> Finding:
    found = shutil.which(name)
    return Finding(OK, name, found) if found else Finding(WARNING, name, "not found", without)


def _gib(amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB"
