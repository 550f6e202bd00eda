"""Contents of result files, without the times that something took."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

# Beside times: the place, and the checksums of files that say how long something took.
VARYING = {"results", "seconds", "wall_seconds", "peak_memory_mb", "files", "record_sha256"}
OF_WORKFLOW = ("logs/", "benchmarks/", "tracked/", "index.html")  # the page tells times


def timeless(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a history, or records, without the times."""
    return [{k: v for k, v in row.items() if k not in VARYING} for row in rows]


def content(path: Path) -> Any:
    """What a file holds."""
    if path.name == "runs.csv":
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        return table.filter(regex="^(?!.*(seconds|memory))").to_dict()
    if path.suffix not in (".json", ".jsonl"):
        return path.read_bytes()
    texts = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
    return timeless(map(json.loads, texts))


def bits(results: Path, left_out: Iterable[str] = OF_WORKFLOW) -> dict[str, Any]:
    """What every file below a folder holds, by its name."""
    files = (path for path in results.rglob("*") if path.is_file())
    names = {str(path.relative_to(results)): path for path in files if path.name[0] != "."}
    return {n: content(p) for n, p in names.items() if not n.startswith(tuple(left_out))}
