"""What of a result MLflow keeps as numbers and parameters, by the names that every study shares."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cemlib.records.scores import IDENTIFICATION

NOT_SCORES = {"seed"}  # numbers of metrics.json that identify a result instead of measuring it
PLAIN = {IDENTIFICATION: "identified"}  # names that differ from the files', as the tables do


@dataclass(frozen=True)
class Row:
    """One epoch of a learning curve, `time` milliseconds after the job's start."""

    step: int
    time: int
    values: Mapping[str, float]


def scores(metrics: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of the finite final scores; one that is not finite has no number."""
    for key, value in metrics.items():
        if key == "parameters":
            yield from ((f"{key}.{part}", float(count)) for part, count in value.items())
        elif key == "client_cost":
            yield from (
                (f"client_{cost}.{when}", float(value[when][cost]))
                for when in value
                for cost in value[when]
            )
        elif _is_number(value) and key not in NOT_SCORES:
            yield PLAIN.get(key, key), float(value)


def curves(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return every epoch's numbers as `curve/<name>`, so that they stay apart from final scores."""
    found, seconds = [], 0.0
    for row in rows:
        seconds += row.get("seconds", 0.0)
        numbers = {_metric(k): float(v) for k, v in row.items() if k != "epoch" and _is_number(v)}
        found.append(Row(row["epoch"], round(1000 * seconds), numbers))
    return found


def _metric(key: str) -> str:
    """Return a name of letters, digits and `_-. :/`, which MLflow takes."""
    return "curve/" + re.sub(r"[^\w\-. :/]", "_", key)


def _is_number(value: Any) -> bool:
    """Return whether MLflow keeps a value as it is; infinity would be the largest float."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
