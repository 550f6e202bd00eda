"""What the page says of the study itself: what was studied, by which code, and what failed."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from cemlib.report.cells import number
from cemlib.report.style import readable
from cemlib.report.tables import records
from cemlib.report.writer import Column, Row, Table

_SHORT = 12  # characters of a checksum

Record = Mapping[str, Any]


def facts(
    settings: Record,
    data: Record,
    runs: pd.DataFrame,
    attacks: pd.DataFrame,
    results: Mapping[Path, Record],
) -> dict[str, str]:
    """Return the head's lines: what each is about, and what is the case.

    Args:
        settings: the configuration with its defaults.
        data: description of the prepared data.
        runs: as `collect` returns them.
        attacks: likewise.
        results: content of every ``metrics.json``, by its path.
    """
    made = [record["provenance"] for record in results.values()]
    return {
        "Data": _data(settings, data),
        "Model": f"{settings['model']['name']}, cut {settings['model']['cut']}",
        "Noise σ": _noise(settings["defences"]),
        "Seeds": ", ".join(str(seed) for seed in settings["seeds"]),
        "Attacker has": _listed(readable(name) for name in attacks["knowledge"].unique()),
        "Attacks": _listed(readable(name) for name in attacks["attack"].unique()),
        "Trainings": _counted(runs),
        "Attacks carried out": _counted(attacks),
        "Commit": _listed(_commit(source) for source in made),
        "Hardware": _listed(_machine(source) for source in made),
        "Date": _date(results),
        "Time of all jobs": _duration(sum(r["wall_seconds"] for r in results.values())),
    }


def failures(runs: pd.DataFrame, attacks: pd.DataFrame) -> list[str]:
    """Return a sentence for each failed result; attacks that failed with their run have none."""
    failed_runs = list(records(runs[runs["status"] == "failed"]))
    lost = {(run["defence"], run["seed"]) for run in failed_runs}
    lines = [f"{run['defence']}, seed {run['seed']}: {run['reason']}" for run in failed_runs]
    for row in records(attacks[attacks["status"] == "failed"]):
        if (row["defence"], row["seed"]) not in lost:
            where = f"{row['attack']}, {row['knowledge']}, on {row['defence']}, seed {row['seed']}"
            lines.append(f"{where}: {row['reason']}")
    return lines


def jobs(records: Iterable[Mapping[str, Any]]) -> Table:
    """Lay out where the result of each ``metrics.json`` came from."""
    columns: list[Column] = [
        ("Defence", lambda row: readable(row["defence"])),
        ("Seed", number("seed", 12)),
        ("Job", _job),
        ("Status", _status),
        ("Seconds", lambda row: f"{row['wall_seconds']:.1f}"),
        ("Peak memory [MiB]", number("peak_memory_mb", 4)),
        ("Device", lambda row: row["provenance"]["device"]),
        ("Commit", lambda row: _short_commit(row["provenance"])),
        ("Fingerprint", lambda row: row["provenance"]["fingerprint"][:_SHORT]),
        ("Versions", _versions),
    ]
    rows = [[cell(record) for _, cell in columns] for record in records]
    return Table("Results", [title for title, _ in columns], rows)


def _data(settings: Record, data: Record) -> str:
    counts, (channels, height, width) = data["counts"], data["image_shape"]
    colour = "grey" if channels == 1 else f"{channels} channels"
    images = ", ".join(f"{counts[part]:,} {part}" for part in counts)
    return (
        f"{settings['data']['source']}: {len(data['classes'])} classes, {width}×{height} pixels,"
        f" {colour}; images: {images}"
    )


def _noise(defences: Mapping[str, Record]) -> str:
    by_noise: dict[float, list[str]] = {}
    for name, defence in defences.items():
        by_noise.setdefault(defence["noise_std"], []).append(readable(name))
    if len(by_noise) == 1:
        return f"{next(iter(by_noise)):g}"
    return "; ".join(f"{noise:g} ({', '.join(names)})" for noise, names in by_noise.items())


def _counted(results: pd.DataFrame) -> str:
    failed = int((results["status"] == "failed").sum())
    return f"{len(results)}, {f'{failed} of them failed' if failed else 'none failed'}"


def _commit(source: Record) -> str:
    return f"{source['commit'][:12]}{' with uncommitted changes' if source['dirty'] else ''}"


def _machine(source: Record) -> str:
    threads = source["threads"]
    return f"{source['device']} ({source['machine']}), {threads} thread{'s' * (threads > 1)} a job"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _date(results: Iterable[Path]) -> str:
    """Return the day of the newest result, by its file's time: no result says when it was made."""
    newest = max(path.stat().st_mtime for path in results)
    return f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d} (UTC)"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"


def _job(row: Row) -> str:
    return "training" if row["kind"] == "run" else readable(f"{row['attack']}, {row['knowledge']}")


def _status(row: Row) -> str:
    return "ok" if row["status"] == "ok" else f"failed: {row['reason']}"


def _short_commit(source: Mapping[str, Any]) -> str:
    return f"{source['commit'][:_SHORT]}{'+' if source['dirty'] else ''}"


def _versions(row: Row) -> str:
    return ", ".join(f"{name} {found}" for name, found in row["provenance"]["versions"].items())
