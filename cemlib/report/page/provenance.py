"""Where every result came from, a row for each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cemlib.report.page.contents import Job

_SHORT = 12  # characters of a checksum


def jobs(records: Mapping[Path, Mapping[str, Any]]) -> list[Job]:
    """A row for each ``metrics.json``, by their paths."""
    return [_job(record) for record in records.values()]


def _job(record: Mapping[str, Any]) -> Job:
    source, memory = record["provenance"], record["peak_memory_mb"]
    is_run = record["kind"] == "run"
    return Job(
        defence=record["defence"],
        seed=record["seed"],
        name="training" if is_run else f"{record['attack']}, {record['knowledge']}",
        status="ok" if record["status"] == "ok" else f"failed: {record['reason']}",
        seconds=f"{record['wall_seconds']:.1f}",
        memory="–" if memory is None else f"{memory:,.0f}",
        device=source["device"],
        commit=f"{source['commit'][:_SHORT]}{'+' if source['dirty'] else ''}",
        fingerprint=source["fingerprint"][:_SHORT],
        versions=", ".join(f"{name} {number}" for name, number in source["versions"].items()),
    )
