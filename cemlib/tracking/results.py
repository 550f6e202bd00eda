"""Read the content of MLflow runs from the files of an experiment, without MLflow.

A result is a snapshot: its files are read once, and its digest covers exactly what is uploaded.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from cemlib.config.differing import flatten
from cemlib.records.files import FileError, parse_jsonl, parse_record
from cemlib.records.layout import identity, run_of
from cemlib.records.scores import UNBOUNDED, impossible
from cemlib.records.seal import check_record, check_sums, read_sealed
from cemlib.tracking.notes import describe_report
from cemlib.tracking.numbers import Epoch, curves, scores

CURVES = "history.jsonl"
CONFIG = "config.json"
ARTIFACTS = (CONFIG, CURVES, "reconstructions.png", "extremes.png", "per_image.parquet")
OF_THE_VICTIM = ("top1", "leakage_nats")  # also logged with an attack, for charts of both
LARGEST_ARTIFACT = 10 * 2**20  # bytes; larger files stay in the result folder only
LAYOUT = b"9"  # version of what is uploaded: a new one uploads every result again
REPORT = "report"
WORST = "worst_case/"  # prefix of the metrics in `worst`
NEEDED = ("status", "config", "provenance", "wall_seconds")
FINISHED, FAILED, RUNNING = "FINISHED", "FAILED", "RUNNING"


@dataclass(frozen=True)
class Result:
    """The content of one MLflow run."""

    folder: str  # within the experiment, with `/` between its parts; it identifies the result
    name: str
    status: str  # `FINISHED`, `FAILED`, or `RUNNING` for a job that has not written its metrics
    start: int  # of the job, in milliseconds since 1970
    end: int  # of the job, or the time of its last epoch
    digest: str  # SHA-256 over the uploaded files, or over the curves of a job under way
    note: str = ""  # description in Markdown; empty for a run or attack that finished well
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    curves: Sequence[Epoch] = ()
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    worst: Mapping[str, float] = field(default_factory=dict)  # of a run; known later than the rest

    @property
    def parent(self) -> str | None:
        """Return the folder of the run that an attack was made on; None for anything else."""
        run = str(run_of(PurePosixPath(self.folder)))
        return run if run != self.folder else None


@dataclass(frozen=True)
class _File:
    content: bytes
    modified: int  # milliseconds since 1970


def read_result(root: Path, metrics: Path) -> Result | None:
    """Read a run or attack, finished or under way; None if neither metrics nor curve is written.

    Raises:
        FileError: if a file is damaged.
    """
    # A job writes its metrics last: if they exist when reading begins, all files are complete.
    paths = [metrics, *(metrics.with_name(name) for name in ARTIFACTS)]
    found = {path.name: file for path in paths if (file := _read(path)) is not None}
    if found.get(metrics.name) != _read(metrics):  # the job has started again, or ended, since
        return read_result(root, metrics)
    if metrics.name in found:
        return _finished(root, metrics, found)
    if CURVES in found and found[CURVES].content.strip():
        return _under_way(root, metrics.parent, found[CURVES])
    return None


def read_report(root: Path, experiment: str, files: Sequence[Path]) -> Result | None:
    """Read the tables and figures that exist and are not too large, or return None without any."""
    read = ((path, _read(path)) for path in files)
    found = {path: file for path, file in read if file and len(file.content) <= LARGEST_ARTIFACT}
    if not found:
        return None
    made = max(file.modified for file in found.values())
    artifacts = {path.relative_to(root).as_posix(): file.content for path, file in found.items()}
    return Result(
        folder=REPORT,
        name=REPORT,
        status=FINISHED,
        start=made,
        end=made,
        digest=_digest(artifacts),
        note=describe_report(experiment, artifacts),
        tags={"kind": REPORT, "status": "ok"},
        artifacts=artifacts,
    )


def _finished(root: Path, path: Path, found: Mapping[str, _File]) -> Result:
    metrics = _record(path, found)
    names, folder = identity(path.parent), path.parent.relative_to(root).as_posix()
    end = found[path.name].modified
    contents = {name: file.content for name, file in found.items()}
    artifacts = {n: each for n, each in contents.items() if 0 < len(each) <= LARGEST_ARTIFACT}
    return Result(
        folder=folder,
        name=_name(names),
        status=FINISHED if metrics["status"] == "ok" else FAILED,
        start=end - round(1000 * metrics["wall_seconds"]),
        end=end,
        digest=_digest(artifacts),
        note="" if metrics["status"] == "ok" else f"Failed: {metrics['reason']}",
        tags={**names, **_tags(metrics)},
        params=_params(names, metrics),
        scores=dict(scores(metrics)) | _of_the_victim(path, names, metrics),
        curves=curves(parse_jsonl(path.with_name(CURVES), contents.get(CURVES, b""))),
        artifacts=artifacts,
    )


def _of_the_victim(
    path: Path, names: Mapping[str, str], metrics: Mapping[str, Any]
) -> dict[str, float]:
    """Return accuracy and leakage bound of the attacked run, if both jobs succeeded."""
    run = path.parents[2] / path.name
    if names["kind"] != "attack" or metrics["status"] != "ok" or not run.is_file():
        return {}
    found = dict(scores(read_sealed(run)))
    return {name: found[name] for name in OF_THE_VICTIM if name in found}


def _record(path: Path, found: Mapping[str, _File]) -> dict[str, Any]:
    """Return the metrics, after comparing all files that were read with their checksums."""
    metrics = parse_record(path, found[path.name].content, NEEDED)
    check_record(path, metrics)
    for fault in impossible(metrics):
        raise FileError(f"{path}: {fault}; delete it and rerun its job")
    sums = {name: hashlib.sha256(file.content).hexdigest() for name, file in found.items()}
    check_sums(path, metrics, sums)
    return metrics


def _under_way(root: Path, place: Path, history: _File) -> Result:
    epochs = curves(parse_jsonl(place / CURVES, history.content))
    names = identity(place)
    return Result(
        folder=place.relative_to(root).as_posix(),
        name=_name(names),
        status=RUNNING,
        start=history.modified - epochs[-1].time,
        end=history.modified,
        digest=_digest({CURVES: history.content}),
        note="Under way: the curves grow; scores, parameters and files come when it has finished.",
        tags={**names, "status": "running"},
        curves=epochs,
    )


def _tags(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Return tags of a result's origin, and of the reasons why scores are missing."""
    source = metrics["provenance"]
    tags = {"status": metrics["status"], **_settings(metrics)}
    tags |= {name: source[name] for name in ("commit", "fingerprint", "device")}
    tags["dirty"] = "yes" if source["dirty"] else "no"  # whether there were uncommitted changes
    tags |= {f"version.{name}": number for name, number in source["versions"].items()}
    if source["commit"] != "unknown":
        tags["mlflow.source.git.commit"] = source["commit"]
    if metrics["status"] != "ok":
        return tags | {"reason": str(metrics["reason"])}
    # JSON has null for a number that is not finite, such as the bound without any noise.
    unbounded = [key for key in UNBOUNDED if key in metrics and metrics[key] is None]
    if metrics.get("converged") is not None:
        tags["converged"] = "yes" if metrics["converged"] else "no"
    return tags | dict.fromkeys(unbounded, "unbounded")


def _settings(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Return tags to filter and group by; images of a user's folder are named by the study."""
    config = metrics["config"]
    defence = config.get("defence", {})
    source = str(config.get("data", {}).get("source", "unknown"))
    tags = {"data": str(metrics.get("experiment")) if source == "folder" else source}
    tags |= {"model": config["model"]["name"]} if "model" in config else {}
    for part in ("surrogate", "channel", "penalty"):
        tags[part] = (defence.get(part) or {}).get("name", "none")
    return tags | ({"queries": str(metrics["queries"])} if "queries" in metrics else {})


def _params(names: Mapping[str, str], metrics: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings; an attack has only its own, and its run has the others."""
    chosen = {key: value for key, value in names.items() if key != "kind"}
    config = metrics["config"]
    if names["kind"] == "attack":
        config = {"attack": config.get("attack", {})}
    return chosen | dict(flatten(config))


def _name(names: Mapping[str, str]) -> str:
    """Return a run's name; an attack's begins with that of its run, for MLflow's charts."""
    run = f"{names['defence']} seed{names['seed']}"
    return run if names["kind"] == "run" else f"{run} {names['attack']} {names['knowledge']}"


def _read(path: Path) -> _File | None:
    """Read a file; None if it does not exist, since jobs write and rerun at the same time."""
    try:
        with path.open("rb") as handle:
            return _File(handle.read(), os.fstat(handle.fileno()).st_mtime_ns // 10**6)
    except FileNotFoundError:
        return None


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(LAYOUT)
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0".encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()
