"""Putting a study's small tables and figures under version control, with their provenance."""

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cemlib.records.files import FileError, write_bytes, write_json
from cemlib.records.seal import read_sealed

_NEEDED = ("seed", "status", "wall_seconds", "provenance")


def publish(
    metrics: Sequence[Path], sources: Sequence[Path], out: Path, command: str
) -> list[Path]:
    """Copy the tables and the main figures of a finished study, and say where they came from.

    Args:
        metrics: `metrics.json` of every run and attack.
        sources: Tables and figures of the study that are copied.
        out: Folder to write to.
        command: What a reader types to produce the study again.

    Raises:
        FileError: if a result is missing, or came from a checkout with uncommitted changes: a
            number nobody can produce again is not published.
    """
    results = [read_sealed(path, _NEEDED) for path in metrics]
    for path, result in zip(metrics, results, strict=True):
        if result["provenance"]["dirty"] or result["provenance"]["commit"] == "unknown":
            raise FileError(f"{path}: made from uncommitted code; commit and rerun it to publish")
    for source in sources:
        if not source.is_file():
            raise FileError(
                f"{source}: no such file; run the study to its end before publishing it"
            )
    written = [out / source.name for source in sources]
    for source, copy in zip(sources, written, strict=True):
        write_bytes(copy, source.read_bytes())
    write_json(out / "provenance.json", _provenance(results, command))
    return [*written, out / "provenance.json"]


def _provenance(results: Sequence[dict[str, Any]], command: str) -> dict[str, Any]:
    facts = [result["provenance"] for result in results]
    return {
        "command": command,
        "commits": sorted({fact["commit"] for fact in facts}),
        "seeds": sorted({result["seed"] for result in results}),
        "devices": sorted({fact["device"] for fact in facts}),
        "processors": _processor(),
        "threads": sorted({fact["threads"] for fact in facts}),
        "versions": facts[0]["versions"],
        "jobs": len(results),
        "failed": sum(result["status"] == "failed" for result in results),
        "job_seconds": round(sum(result["wall_seconds"] for result in results)),
    }


def _processor() -> str:
    """Return the model of the processor, from /proc/cpuinfo on Linux, else from `platform`."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()
