"""Comparing tables that were made again with the published ones."""

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pandas as pd
from pandas.api.types import is_float_dtype, is_numeric_dtype

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
