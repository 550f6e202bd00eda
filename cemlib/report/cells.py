"""What stands in a table's cells: functions from a row of numbers to text."""

import math
from collections.abc import Callable
from typing import Any

from cemlib.records.scores import marked
from cemlib.report.writer import Row

Cell = Callable[[Row], str]
NONE = "-"


def number(name: str, digits: int = 3) -> Cell:
    """Make cells of a value: a name, or a number with so many significant digits."""
    return lambda row: significant_or_name(row[name], digits)


def significant_or_name(value: Any, digits: int = 3) -> str:
    """Return a value as a cell; a dash where there is none."""
    if isinstance(value, str):
        return value
    if is_missing(value):
        return NONE
    return "∞" if math.isinf(value) else f"{value:.{digits}g}"


def mean(name: str, decimals: int, scale: float = 1.0) -> Cell:
    """Make cells of a mean with the half width of its interval, or of what became of it."""

    def cell(row: Row) -> str:
        found, high = row[f"{name}_mean"], row[f"{name}_ci_high"]
        if is_missing(found):
            return "failed" if row.get("n_failed") or row.get("failed") else NONE
        return spread(found, high, decimals, scale)

    return cell


def spread(
    mean: float, high: float, decimals: int, scale: float = 1.0, *, unconverged: bool = False
) -> str:
    """Return a mean with the half width of its interval, which may be absent."""
    if is_missing(mean):
        return NONE
    if math.isinf(mean):
        return marked("∞", unconverged)
    text = marked(f"{scale * mean:.{decimals}f}", unconverged)
    return text if is_missing(high) else f"{text} ± {scale * (high - mean):.{decimals}f}"


def with_failures(text: str, failed: float, wanted: float) -> str:
    """Return a number's text, and how many of the wanted results failed and are not in it."""
    failures = f"failed ({failed:.0f} of {wanted:.0f})"
    return failures if failed == wanted else f"{text}, {failures}" if failed else text


def share(name: str) -> Cell:
    """Make cells of a share in whole per cent."""
    return lambda row: NONE if is_missing(row[name]) else f"{100 * row[name]:.0f}"


def count(name: str) -> Cell:
    """Make cells of a whole number."""
    return lambda row: NONE if is_missing(row[name]) else f"{row[name]:,.0f}"


def signed(name: str, form: str = "+.3g", scale: float = 1.0) -> Cell:
    """Make cells of a difference."""
    return lambda row: NONE if is_missing(row[name]) else f"{scale * row[name]:{form}}"


def interval(prefix: str = "ci", form: str = "+.3g", scale: float = 1.0) -> Cell:
    """Make cells of both ends of an interval, of the columns ``_low`` and ``_high``."""

    def cell(row: Row) -> str:
        low, high = row[f"{prefix}_low"], row[f"{prefix}_high"]
        return NONE if is_missing(low) else f"{scale * low:{form}} to {scale * high:{form}}"

    return cell


def finished(wanted: str) -> Cell:
    """Make cells of how many of the wanted results have not failed."""
    return lambda row: f"{row[wanted] - row['n_failed']} of {row[wanted]}"


def is_missing(value: Any) -> bool:
    """Return whether there is no number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


DIFFERENCES = (
    ("difference", signed("difference", "+.2f", 100)),
    ("95 % interval", interval(form="+.2f", scale=100)),
    ("g_z", number("g_z")),
    ("p", number("p")),
    ("p, permutation", number("p_permutation")),
    ("p, Holm", number("p_holm")),
    ("pairs", number("n_pairs")),
)
"""Columns of paired differences in accuracy, in points, of the further systems."""
