"""Copy a study's small tables and figures for version control, and compare new ones with them."""

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from cemlib.config.differing import differing
from cemlib.records.files import FileError, read_record, write_bytes, write_json
from cemlib.records.seal import read_sealed
from cemlib.report.cells import formatted

_NEEDED = ("seed", "status", "wall_seconds", "config", "provenance")
ORIGIN = "provenance.json"
_SETS = ("commits", "seeds", "devices", "threads")  # of the provenance
_SUMS = ("jobs", "failed", "job_seconds")


def publish(
    metrics: Sequence[Path],
    sources: Sequence[Path],
    out: Path,
    command: str,
    *,
    others: Sequence[Path] = (),
    joins_published: bool = False,
) -> list[Path]:
    """Copy the tables and figures of a finished study to `out`, with their `provenance.json`.

    This file holds the command that reproduces the study, and the commits, seeds, devices and
    versions of its results; with `joins_published` also those of the results published before.
    Without it, tables and pictures in `out` that the study no longer makes are removed, except
    README.md.
    `others` are records of results without a seed of the study, such as those of the judge.

    Raises:
        FileError: if a result is missing or was made by uncommitted code, or if those published
            before have other settings or images.
    """
    results = [_reproducible(path, _NEEDED) for path in metrics]
    commits = [_reproducible(path)["provenance"]["commit"] for path in others]
    place, origin = out / ORIGIN, _provenance(results, commits, command)
    if joins_published:
        origin = _joined(place, origin)
    # `--add` takes what is published from the table of runs and from the origin. They are written
    # last, so that the call can be repeated if it is interrupted.
    for source in sorted(sources, key=lambda source: source.name == "runs.csv"):
        write_bytes(out / source.name, source.read_bytes())
    write_json(place, origin)
    if not joins_published:
        kept = {"README.md", *(source.name for source in sources)}
        for old in out.glob("*.*"):
            if old.suffix in (".csv", ".md", ".png") and old.name not in kept:
                old.unlink()
    return [*(out / source.name for source in sources), place]


def _reproducible(path: Path, keys: Sequence[str] = ("provenance",)) -> dict[str, Any]:
    result = read_sealed(path, keys)
    if result["provenance"]["dirty"] or result["provenance"]["commit"] == "unknown":
        raise FileError(
            f"{path}: made by uncommitted code, so no commit reproduces it; commit,"
            f" delete {path.parent} and all other results made before, and rerun the study"
        )
    return result


def published_study(folder: Path) -> tuple[Path, list[str]]:
    """Return the file of a published study, and the settings that its command changes.

    Raises:
        FileError: if the folder's `provenance.json` is missing, or has no command with a file.
    """
    place = folder / ORIGIN
    words = shlex.split(read_record(place, ("command",))["command"])
    named = [(word, after) for word, after in pairwise(words) if word.startswith("--")]
    files = [after for word, after in named if word in ("--configfile", "--config")]
    if not files:
        raise FileError(f"{place}: its command names no configuration; publish the study again")
    return Path(files[0]), [after for word, after in named if word == "--set"]


def _provenance(
    results: Sequence[dict[str, Any]], commits: Sequence[str], command: str
) -> dict[str, Any]:
    facts = [result["provenance"] for result in results]
    return {
        "command": command,
        "settings": _digest(result["config"] for result in results),  # except the seeds
        # Neither an option that is added to cemlib later nor a new default changes this one.
        "chosen": _digest(differing(result["config"]) for result in results),
        "data": sorted({result["data_sha256"] for result in results if "data_sha256" in result}),
        "commits": sorted({*commits, *(fact["commit"] for fact in facts)}),
        "seeds": sorted({result["seed"] for result in results}),
        "devices": sorted({fact["device"] for fact in facts}),
        "processors": _distinct(fact.get("processor", "unknown") for fact in facts),
        "threads": sorted({fact["threads"] for fact in facts}),
        "versions": _versions(fact["versions"] for fact in facts),
        "jobs": len(results),
        "failed": sum(result["status"] == "failed" for result in results),
        "job_seconds": round(sum(result["wall_seconds"] for result in results)),
    }


def _digest(configs: Iterable[Mapping[str, Any]]) -> str:
    texts = sorted({json.dumps(config, sort_keys=True) for config in configs})
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def _joined(place: Path, now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provenance of results of which some were published before."""
    before = read_record(place, ("processors", "versions", *_SETS, *_SUMS))
    settings = "chosen" if "chosen" in before else "settings"
    for key, what in ((settings, "settings"), ("data", "images, or other splits of them")):
        if before.get(key, now[key]) != now[key]:  # older files have none
            raise FileError(f"{place}: made with other {what}; publish all seeds again")
    return {
        **now,
        **{key: sorted({*before[key], *now[key]}) for key in _SETS},
        **{key: before[key] + now[key] for key in _SUMS},
        "versions": _versions([before["versions"], now["versions"]]),
        "processors": _distinct([before["processors"], now["processors"]]),
    }


def _versions(found: Iterable[Mapping[str, str]]) -> dict[str, str]:
    table = pd.DataFrame(list(found))
    return {str(name): _distinct(texts.dropna()) for name, texts in table.items()}


def _distinct(texts: Iterable[str]) -> str:
    """Return ``first; second`` without repetition; the texts may have this form already."""
    return "; ".join(dict.fromkeys(part for text in texts for part in text.split("; ")))


ALIKE = 5e-4  # relative: tables print three digits
# Columns that depend on the machine, the day or the version of the code.
VOLATILE = "seconds|memory|exponent|peer_ratio|times_reference|commit|fingerprint"


def compare_published(published: Path, made: Path) -> Iterator[str]:
    """Compare published tables (CSV) with reproduced ones, and yield a line for each.

    It says `equal`, or what differs by more than tables print. If only some of the published seeds
    were reproduced, a table with a row per seed is compared on these seeds only.

    Raises:
        FileError: if nothing is published there.
    """
    tables = sorted(published.glob("*.csv"))
    if not tables:
        raise FileError(f"{published}: no published tables; publish the study without --compare")
    for table in tables:
        other = made / table.name
        if not other.is_file():
            yield f"{table.name}: no longer made"
            continue
        before, now, scope = _read(table), _read(other), ""
        again = {*now.get("seed", ())}
        if again and again < {*before.get("seed", ())}:
            scope = f"seeds {sorted(again)} of {before['seed'].nunique()}: "
            before = before[before["seed"].isin(again)].reset_index(drop=True)
        yield f"{table.name}: {scope}{'; '.join(_differing(before, now)) or 'equal'}"


def _read(table: Path) -> pd.DataFrame:
    # A defence may be called `NA`, which pandas would read as missing.
    frame = pd.read_csv(table, keep_default_na=False, na_values=[""])
    return frame.loc[:, ~frame.columns.str.contains(VOLATILE)]


def _differing(before: pd.DataFrame, now: pd.DataFrame) -> Iterator[str]:
    for word, names in (
        ("missing", before.columns.difference(now.columns, sort=False)),
        ("new", now.columns.difference(before.columns, sort=False)),
    ):
        if len(names):
            yield f"{word} {', '.join(names)}"
    first = before.columns[0]
    if first not in now or before[first].tolist() != now[first].tolist():
        yield f"other rows: {len(before)} before, {len(now)} now"
        return
    for name in before.columns.intersection(now.columns, sort=False):
        differ = _differ(before[name], now[name])
        if differ.any():
            row = differ.argmax()
            pair = " -> ".join(formatted(each[name].iloc[row], ".4g") for each in (before, now))
            yield f"{name}: {differ.sum()} of {len(before)} differ, first in line {row + 2}: {pair}"


def _differ(before: pd.Series, now: pd.Series) -> NDArray[np.bool]:
    if is_numeric_dtype(before) and is_numeric_dtype(now):
        return ~np.isclose(before, now, rtol=ALIKE, atol=0, equal_nan=True)
    # An empty column is one of floats, into which no text fits.
    old, new = (each.astype(object).fillna("").astype(str) for each in (before, now))
    return (old != new).to_numpy()
