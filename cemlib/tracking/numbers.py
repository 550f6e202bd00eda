"""What of a result MLflow keeps as numbers and parameters, by the names that every study shares."""

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cemlib.records.scores import IDENTIFICATION, SCORES
from cemlib.report.worst_case import WORST_CASE

NOT_SCORES = {"seed"}  # numbers of metrics.json that identify a result instead of measuring it
PLAIN = {IDENTIFICATION: "identified"}  # names that differ from the files', as the tables do
SUMMARISED = ("top1", "mse", "ssim", IDENTIFICATION)


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


def summary(table: bytes) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of `summary.csv`: each defence's accuracy and worst case over the seeds.

    The names have no slash: MLflow's charts put those last.
    """
    for row in csv.DictReader(io.StringIO(table.decode())):
        for score in SUMMARISED if row["attack"] == WORST_CASE else ():
            whose = (
                [row["defence"]] if SCORES[score].of_runs else [row["defence"], row["knowledge"]]
            )
            for part in ("mean", "ci_low", "ci_high"):
                if value := row[f"{score}_{part}"]:
                    yield ".".join([*whose, f"{PLAIN.get(score, score)}_{part}"]), float(value)


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
