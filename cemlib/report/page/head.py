"""Describe the study at the head of the page: its settings, its code, and what failed."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

from cemlib.report.build import Results
from cemlib.report.cells import number
from cemlib.report.style import readable
from cemlib.report.tables import records as rows_of
from cemlib.report.writer import Column, Row, Table, laid_out

_SHORT = 12  # characters of a checksum

Record = Mapping[str, Any]


def facts(
    settings: Record, data: Record, results: Results, records: Mapping[Path, Record]
) -> dict[str, str]:
    """Return the lines at the head of the page, by their labels."""
    runs, attacks = results.runs, results.attacks
    made = [record["provenance"] for record in records.values()]
    seconds = sum(record["wall_seconds"] for record in records.values())
    return {
        "Data": _data(settings, data),
        "Model": f"{settings['model']['name']}, cut {settings['model']['cut']}",
        "Seeds": _listed(map(str, settings["seeds"])),
        "Attacker has": _listed(map(readable, attacks["knowledge"])),
        "Attacks": _listed(map(readable, attacks["attack"])),
        "Trainings": _counted(runs),
        "Attacks carried out": _counted(attacks),
        "Commit": _listed(map(_commit, made)),
        "Hardware": _listed(map(_machine, made)),
        "Date": _date(records),
        "Time of all jobs": f"{timedelta(seconds=round(seconds))} hours",
    }


def failures(results: Results) -> list[str]:
    """Return a sentence for each failed result; attacks that failed with their run have none."""
    runs, attacks = (each[each["status"] == "failed"] for each in (results.runs, results.attacks))
    lost = set(zip(runs["defence"], runs["seed"], strict=True))
    lines = [f"{run['defence']}, seed {run['seed']}: {run['reason']}" for run in rows_of(runs)]
    for row in rows_of(attacks):
        if (row["defence"], row["seed"]) not in lost:
            where = f"{row['attack']}, {row['knowledge']}, on {row['defence']}, seed {row['seed']}"
            lines.append(f"{where}: {row['reason']}")
    return lines


def jobs(records: Sequence[Record]) -> Table:
    """Lay out the origin of each result, from its ``metrics.json``."""
    columns: list[Column] = [
        ("Defence", lambda row: readable(row["defence"])),
        ("Seed", lambda row: str(row["seed"])),
        ("Job", _job),
        ("Status", lambda row: "ok" if row["status"] == "ok" else f"failed: {row['reason']}"),
        ("Seconds", lambda row: f"{row['wall_seconds']:.1f}"),
        ("Peak memory [MiB]", number("peak_memory_mb", ".4g")),
        ("Device", lambda row: row["provenance"]["device"]),
        ("Commit", lambda row: _commit(row["provenance"], "+")),
        ("Fingerprint", lambda row: row["provenance"]["fingerprint"][:_SHORT]),
        ("Versions", _versions),
    ]
    return laid_out("Results", pd.DataFrame(records), columns)


def _data(settings: Record, data: Record) -> str:
    counts, (channels, height, width) = data["counts"], data["image_shape"]
    colour = "grey" if channels == 1 else f"{channels} channels"
    images = ", ".join(f"{counts[part]:,} {part}" for part in counts)
    return (
        f"{settings['data']['source']}: {len(data['classes'])} classes, {width}×{height} pixels,"
        f" {colour}; images: {images}"
    )


def _counted(results: pd.DataFrame) -> str:
    failed = int((results["status"] == "failed").sum())
    return f"{len(results)}, {failed or 'none'} of them failed"


def _commit(source: Record, dirty: str = " with uncommitted changes") -> str:
    return f"{source['commit'][:_SHORT]}{dirty if source['dirty'] else ''}"


def _machine(source: Record) -> str:
    threads = source["threads"]
    return f"{source['device']} ({source['machine']}), {threads} thread{'s' * (threads > 1)} a job"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _date(results: Iterable[Path]) -> str:
    """Return the day on which the newest file was written."""
    newest = max(path.stat().st_mtime for path in results)
    return f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d} (UTC)"


def _job(row: Row) -> str:
    return "training" if row["kind"] == "run" else readable(f"{row['attack']}, {row['knowledge']}")


def _versions(row: Row) -> str:
    return ", ".join(f"{name} {found}" for name, found in row["provenance"]["versions"].items())
