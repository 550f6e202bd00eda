"""Check a machine for `cemlib doctor`: libraries, devices, disk, and the MLflow store."""

import importlib
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cemlib import __version__
from cemlib.records.provenance import git_state
from cemlib.study.job import AnyPlan
from cemlib.study.requirements import OK, PROBLEM, WARNING, Finding, requirements
from cemlib.tracking.store import TrackingError, check_database, database_of, without_password

NEEDED = ("torch", "torchvision")  # imported, since two versions that do not fit fail only then
WORKFLOW = {
    "snakemake": "`cemlib run` runs a study without it",
    "mlflow": "only `cemlib track` needs it",
}
LEAST_FREE = 2**30  # bytes for the results


def machine() -> Iterator[Finding]:
    """Yield all findings that depend on no study."""
    yield Finding(OK, "python", f"{platform.python_version()}, {sys.executable}")
    state = git_state()
    changed = ", with changes that are not committed" if state["dirty"] else ""
    found = f"{__version__}, commit {state['commit'][:12]}{changed}"
    is_commit = state["commit"] != "unknown" and not changed
    advice = "" if is_commit else "results that are to be published must be computed from a commit"
    yield Finding(OK if is_commit else WARNING, "cemlib", found, advice)
    libraries = [_library(name) for name in NEEDED]
    yield from libraries
    yield from (_installed(name, without) for name, without in WORKFLOW.items())
    if libraries[0].level == OK:
        yield from _devices()
    if shutil.which("git") is None:
        yield Finding(WARNING, "git", "not found", "results will not say which commit made them")


def _library(name: str) -> Finding:
    try:
        importlib.import_module(name)
    except Exception as error:  # a broken library raises anything; this check looks for that
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        advice = f"install {' and '.join(NEEDED)} again, together: make .venv/ready, or pip"
        return Finding(PROBLEM, name, f"cannot be imported ({reason})", advice)
    return Finding(OK, name, version(name))


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
        found = f"{properties.name}, {properties.total_memory / 2**30:.1f} GiB"
        yield Finding(OK, f"device cuda:{number}", found)
    if not torch.cuda.is_available():
        yield Finding(OK, "device", "cpu; torch finds no usable CUDA device")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    fast = "yes" if multiplies_bfloat16(device) else "no; `precision: auto` will be float32"
    yield Finding(OK, "bfloat16", f"{fast} ({device.type})")


def places(store: str, plan: AnyPlan | None = None) -> Iterator[Finding]:
    """Yield all findings about a study, if there is one, and the places of results and uploads."""
    if plan is not None:
        yield from requirements(plan)
    yield _disk(Path("results") if plan is None else plan.layout.root.parent)
    yield _store(store)


def _disk(results: Path) -> Finding:
    there = next(place for place in (results, *results.absolute().parents) if place.exists())
    free = shutil.disk_usage(there).free
    found = f"{results}: {free / 2**30:.1f} GiB free"
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        advice = "set `results` to another folder"
        return Finding(PROBLEM, "results", f"{there}: cannot be written", advice)
    if free < LEAST_FREE:
        advice = "free some space, or set `results` to another folder"
        return Finding(WARNING, "results", found, advice)
    return Finding(OK, "results", found)


def _store(uri: str) -> Finding:
    try:
        database = database_of(uri)
        if database is not None and database.exists():
            check_database(database)
    except TrackingError as error:
        return Finding(WARNING, "MLflow store", *str(error).split("; ", 1))
    return Finding(OK, "MLflow store", without_password(uri))
