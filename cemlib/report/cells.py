"""Make the cells of tables: functions from a row of numbers to text."""

import math
from collections.abc import Callable
from typing import Any

import pandas as pd

from cemlib.records.scores import marked
from cemlib.report.writer import Row

Cell = Callable[[Row], str]
NONE = "-"


def number(name: str, form: str = ".3g", scale: float = 1.0) -> Cell:
    """Make cells of a column: numbers in a format, texts as they are."""
    return lambda row: formatted(row[name], form, scale)


def formatted(value: Any, form: str = ".3g", scale: float = 1.0) -> str:
    """Return a number in a format, or a text as it is; a dash for a missing value."""
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return NONE
    return "∞" if math.isinf(value) else f"{scale * value:{form}}"


def difference(scale: float = 1.0) -> Cell:
    """Make cells of a difference, marked where it rests on an attack that had not converged."""

    def cell(row: Row) -> str:
        text = formatted(row["difference"], "+.3g", scale)
        return marked(text, text != NONE and row["unconverged"] != "")

    return cell


def mean(name: str, decimals: int, scale: float = 1.0, late: str = "") -> Cell:
    """Make cells of a mean ± half its interval, marked as unconverged where ``late`` is above 0."""

    def cell(row: Row) -> str:
        found, high = row[f"{name}_mean"], row[f"{name}_ci_high"]
        if pd.isna(found) and (row.get("n_failed") or row.get("failed")):
            return "failed"
        return spread(found, high, decimals, scale, unconverged=late != "" and row[late] > 0)

    return cell


def spread(
    mean: float, high: float, decimals: int, scale: float = 1.0, *, unconverged: bool = False
) -> str:
    """Return a mean with the half width of its interval, which may be absent."""
    if pd.isna(mean):
        return NONE
    text = marked(formatted(mean, f".{decimals}f", scale), unconverged)
    has_interval = math.isfinite(mean) and not pd.isna(high)
    return f"{text} ± {scale * (high - mean):.{decimals}f}" if has_interval else text


def with_failures(text: str, failed: float, wanted: float) -> str:
    """Return the text of a mean, followed by how many of the expected results failed, if any."""
    failures = f"failed ({failed:.0f} of {wanted:.0f})"
    return failures if failed == wanted else f"{text}, {failures}" if failed else text


def interval(prefix: str = "ci", form: str = "+.3g", scale: float = 1.0) -> Cell:
    """Make cells of both ends of an interval, of the columns ``_low`` and ``_high``."""

    def cell(row: Row) -> str:
        low, high = (formatted(row[f"{prefix}_{end}"], form, scale) for end in ("low", "high"))
        return NONE if low == NONE else f"{low} to {high}"

    return cell


def finished(wanted: str) -> Cell:
    """Make cells that say how many of the expected results did not fail."""
    return lambda row: f"{row[wanted] - row['n_failed']} of {row[wanted]}"


DIFFERENCES = (
    ("difference", number("difference", "+.2f", 100)),
    ("95 % interval", interval(form="+.2f", scale=100)),
    ("p", number("p")),
    ("p, Holm", number("p_holm")),
    ("pairs", number("n_pairs")),
)
"""Columns of paired differences in accuracy, in points, for labelling and federated learning."""
