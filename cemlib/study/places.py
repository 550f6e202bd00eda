"""Whether the places of a study are there: its images, its results, its MLflow store.

Nothing here writes a file or uses the network.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from cemlib.config.common import AnyStudy
from cemlib.config.data import DataConfig
from cemlib.study.machine import OK, PROBLEM, WARNING, Finding, usable_cores
from cemlib.study.plan import Plan
from cemlib.tracking.store import TrackingError, check_database, database_of, without_password

LEAST_FREE = 2**30  # bytes at the results: below that a warning
DIGITS = "digits"  # the source that needs no place
FOLDER = "folder"
DOWNLOADS = {  # where torchvision puts a set, below its root
    "cifar10": "cifar-10-batches-py",
    "cifar100": "cifar-100-python",
    "mnist": "MNIST/raw",
    "fashion_mnist": "FashionMNIST/raw",
    "svhn": "train_32x32.mat",
}


def places(store: str, plan: Plan[AnyStudy] | None = None) -> Iterator[Finding]:
    """Yield all findings about where images, results and uploads lie.

    Args:
        store: address of the MLflow store.
        plan: of the study, where there is one.
    """
    if plan is not None:
        yield images(plan)
        yield _threads(plan.study.threads)
    yield _disk(Path("results" if plan is None else plan.study.results))
    yield _store(store)


def images(plan: Plan[AnyStudy]) -> Finding:
    """Return whether the images of a study are there."""
    config, subject = plan.study.data, f"data {plan.study.data.source}"
    if plan.layout.prepared.is_file() and plan.layout.prepared_facts.is_file():
        return Finding(OK, subject, f"prepared already: {plan.layout.data}")
    if config.source == DIGITS:
        return Finding(OK, subject, "come with scikit-learn")
    return _images(subject, config, config.root or os.environ.get("CEMLIB_DATA"))


def _images(subject: str, config: DataConfig, named: str | None) -> Finding:
    by = "data.root" if config.root else "CEMLIB_DATA"
    place = Path(named or "data")
    if config.source == FOLDER and named is None:
        return Finding(
            PROBLEM, subject, "no place is named", "set data.root or CEMLIB_DATA to a folder"
        )
    if named is not None and not place.is_dir():
        return Finding(
            PROBLEM, subject, f"{place}: no such folder", f"set {by} to the folder of the images"
        )
    if config.source == FOLDER or (place / "train").is_dir():
        return _folder(subject, place, by)
    if config.source not in DOWNLOADS:  # a source that somebody added
        return Finding(OK, subject, f"{place}; `cemlib prepare` reads them")
    download = place / DOWNLOADS[config.source]
    if not download.exists():
        advice = "`cemlib prepare` downloads them, or set CEMLIB_DATA to a folder that has them"
        return Finding(WARNING, subject, f"{download}: not there yet", advice)
    return Finding(OK, subject, f"{download}; `cemlib prepare` checks them")


def _folder(subject: str, place: Path, by: str) -> Finding:
    """Count the classes of an image folder; `cemlib prepare` reads the images."""
    part = place / "train" if (place / "train").is_dir() else place
    classes = [entry for entry in part.iterdir() if entry.is_dir() and entry.name[0] != "."]
    if len(classes) < 2:
        advice = f"set {by} to a folder of class folders, or of train/ and test/ with them"
        return Finding(PROBLEM, subject, f"{part}: {len(classes)} class folders", advice)
    return Finding(OK, subject, f"{len(classes)} class folders in {part}")


def _threads(threads: int) -> Finding:
    cores = usable_cores()
    if threads > cores:
        advice = f"set `threads` to {cores} or less; it is part of what decides a result's bits"
        return Finding(WARNING, "study's threads", f"{threads} on {cores} cores", advice)
    return Finding(OK, "study's threads", f"{threads} a job")


def _disk(results: Path) -> Finding:
    there = next(place for place in (results, *results.absolute().parents) if place.exists())
    free = shutil.disk_usage(there).free
    found = f"{results}: {free / 2**30:.1f} GiB free"
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding(
            PROBLEM, "results", f"{there}: cannot be written", "set `results` to another folder"
        )
    if free < LEAST_FREE:
        return Finding(WARNING, "results", found, "make room, or set `results` to another folder")
    return Finding(OK, "results", found)


def _store(uri: str) -> Finding:
    try:
        database = database_of(uri)
        if database is not None and database.exists():
            check_database(database)
    except TrackingError as error:
        return Finding(WARNING, "MLflow store", *str(error).split("; ", 1))
    return Finding(OK, "MLflow store", without_password(uri))
