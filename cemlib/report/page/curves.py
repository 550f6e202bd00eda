"""The training curves of every run, for the scripts of the page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from cemlib.files import FileError, read_jsonl
from cemlib.report.page.gallery import rounded
from cemlib.report.tables import records

QUANTITIES = ("train_loss", "val_loss", "val_top1", "val_leakage_nats")


def curves(runs: pd.DataFrame) -> list[dict[str, Any]]:
    """Epochs and `QUANTITIES` of every run, as far as it came; null where there is no number.

    Raises:
        FileError: naming a history that is damaged.
    """
    return [_run(row) for row in records(runs)]


def _run(row: Mapping[str, Any]) -> dict[str, Any]:
    path = Path(row["folder"]) / "history.jsonl"
    lines = read_jsonl(path) if path.is_file() else []
    if any("epoch" not in line for line in lines):
        raise FileError(f"{path}: a line has no 'epoch'; delete it and rerun the job")
    named = {key: row[key] for key in ("defence", "seed", "status")}
    values = {name: [_value(line.get(name)) for line in lines] for name in QUANTITIES}
    return named | {"epoch": [line["epoch"] for line in lines]} | values


def _value(value: float | None) -> float | None:
    return None if value is None else rounded(float(value), 5)
