"""Putting a study's small tables and figures under version control, and comparing new ones."""

import platform
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_float_dtype, is_numeric_dtype

from cemlib.records.files import FileError, read_json, write_bytes, write_json
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


def published_study(folder: Path) -> tuple[Path, list[str]]:
    """Return the file of a published study, and what its command changes of the settings there.

    Args:
        folder: Has `provenance.json`.

    Raises:
        FileError: if that is missing or names no file.
    """
    place = folder / "provenance.json"
    words = shlex.split(read_json(place)["command"])
    named = [(word, after) for word, after in pairwise(words) if word.startswith("--")]
    files = [after for word, after in named if word in ("--configfile", "--config")]
    if not files:
        raise FileError(f"{place}: its command names no configuration; publish the study again")
    return Path(files[0]), [after for word, after in named if word == "--set"]


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


ALIKE = 5e-4  # relative: three digits, which every table prints
# What tells of a machine and a day is never the same.
PASSING = "seconds|memory|exponent|peer_ratio|commit"


def differences(published: Path, made: Path) -> Iterator[str]:
    """Yield a line for each published table (CSV, which has the numbers of all its forms).

    Args:
        published: Folder of the published tables.
        made: Folder of those that were made again.

    Yields:
        `<table>: equal`, or what differs by more than tables print: rows and columns that only one
        of the two has, and for each column how many values differ, and the one that does the most.
    """
    for table in sorted(published.glob("*.csv")):
        other = made / table.name
        if not other.is_file():
            yield f"{table.name}: not made any more"
            continue
        told = list(_differing(_read(table), _read(other)))
        yield f"{table.name}: {'; '.join(told) or 'equal'}"


def _read(table: Path) -> pd.DataFrame:
    frame = pd.read_csv(table)
    return frame.loc[:, ~frame.columns.str.contains(PASSING)]


def _differing(before: pd.DataFrame, now: pd.DataFrame) -> Iterator[str]:
    gone, new = (
        [name for name in one.columns if name not in other.columns]
        for one, other in ((before, now), (now, before))
    )
    yield from [f"no more {', '.join(gone)}"] if gone else []
    yield from [f"new {', '.join(new)}"] if new else []
    first = before.columns[0]
    if first in gone or before[first].tolist() != now[first].tolist():
        yield f"other rows: {len(before)} before, {len(now)} now"
        return
    for name in (name for name in before.columns if name not in gone):
        yield from _column(before, now, name)


def _column(before: pd.DataFrame, now: pd.DataFrame, name: str) -> Iterator[str]:
    one, other = before[name], now[name]
    if is_numeric_dtype(one) and is_numeric_dtype(other):
        apart = (one - other).abs() / one.abs().combine(other.abs(), max)
        apart = apart.where((one != other) & ~(one.isna() & other.isna()), 0.0).fillna(float("inf"))
        differ = apart > ALIKE
    else:
        apart = (one.fillna("").astype(str) != other.fillna("").astype(str)).astype(float)
        differ = apart > 0
    if differ.any():
        row = int(apart.to_numpy().argmax())
        leading = takewhile(lambda n: not is_float_dtype(before[n]), before.columns)
        labels = [str(before[n].iloc[row]) for n in leading if not is_numeric_dtype(before[n])]
        yield (
            f"{name}: {differ.sum()} of {len(one)} differ, the most {' '.join(labels)}:"
            f" {_shown(one.iloc[row])} -> {_shown(other.iloc[row])}"
        )


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
