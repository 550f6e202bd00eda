"""Make the metrics of a result in MLflow: final scores and learning curves."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cemlib.records.scores import IDENTIFICATION

PLAIN = {IDENTIFICATION: "identified"}  # scores that the files name otherwise


@dataclass(frozen=True)
class Epoch:
    """One epoch of a learning curve, `time` milliseconds after the job's start."""

    step: int
    time: int
    values: Mapping[str, float]


def scores(metrics: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of the finite final scores."""
    for key, value in metrics.items():
        if key == "parameters":
            yield from ((f"{key}.{part}", float(count)) for part, count in value.items())
        elif key == "client_cost":
            yield from (
                (f"client_{cost}.{when}", float(value[when][cost]))
                for when in value
                for cost in value[when]
            )
        elif _is_number(value) and key != "seed":
            yield PLAIN.get(key, key), float(value)


def curves(rows: Sequence[Mapping[str, Any]]) -> list[Epoch]:
    """Return every epoch's numbers as `curve/<name>`, apart from the final scores."""
    found, seconds = [], 0.0
    for row in rows:
        seconds += row.get("seconds", 0.0)
        # MLflow takes names of letters, digits and `_-. :/` alone.
        names = {key: "curve/" + re.sub(r"[^\w\-. :/]", "_", key) for key in row if key != "epoch"}
        numbers = {names[k]: float(row[k]) for k in names if _is_number(row[k])}
        found.append(Epoch(row["epoch"], round(1000 * seconds), numbers))
    return found


def _is_number(value: Any) -> bool:
    """Return whether MLflow can store a value; it would turn infinity into the largest float."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
