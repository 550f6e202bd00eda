"""Paired comparisons as the page shows them, each with what may be said of it."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from cemlib.marks import marked
from cemlib.report.claims import claim, is_shown, is_unconverged, p_value
from cemlib.report.page.contents import Comparison
from cemlib.report.style import significant
from cemlib.report.tables import records
from cemlib.scores import SCORES


def comparisons(table: pd.DataFrame) -> list[Comparison]:
    """The rows of `comparisons_table`, with a sentence for each."""
    return [_comparison(row) for row in records(table)]


def _comparison(row: Mapping[str, Any]) -> Comparison:
    score = SCORES[row["metric"]]
    return Comparison(
        defence=row["defence"],
        score=score.difference,
        knowledge=row["knowledge"],
        difference=marked(_difference(row, score.scale), is_unconverged(row)),
        effect="–" if math.isnan(row["g_z"]) else _signed(row["g_z"], 2),
        p=p_value(row["p_holm_study"]),
        shown=is_shown(row),
        words=claim(row),
    )


def _difference(row: Mapping[str, Any], scale: int) -> str:
    if math.isnan(row["difference"]):
        return "–"
    signs = [_signed(scale * row[key]) for key in ("difference", "ci_low", "ci_high")]
    if math.isnan(row["ci_low"]):
        return signs[0]
    return f"{signs[0]} [{signs[1]}, {signs[2]}]"


def _signed(value: float, digits: int = 3) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return f"{sign}{significant(abs(value), digits)}"
