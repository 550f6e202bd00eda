"""Joined studies as tables for people: one for each score and knowledge, a column per study."""

import math

import pandas as pd

from cemlib.marks import MARK
from cemlib.report.cells import NONE, spread
from cemlib.report.claims import is_shown, is_unconverged
from cemlib.report.tables import records
from cemlib.report.writer import Document, Row, Table
from cemlib.scores import SCORES, Score

_NOTE = (
    "Mean over seeds ± half width of its 95 % Student-t interval. Δ: the mean minus that of"
    " {first}, ± half width of Welch's 95 % interval; runs of different studies are no pairs. With"
    " *, the test of no difference is rejected at 5 % after Holm's correction over all {tests}"
    " differences. Arrows point to the better side for the defender. Another error on other images"
    " may say more of the images than of the defence: within a study, its own comparisons.csv"
    " compares defences."
)


def joined_document(table: pd.DataFrame) -> Document:
    """Return a table for each score and knowledge of `joined`, defences as rows."""
    tables = [
        _table(part, score, str(knowledge))
        for name, score in SCORES.items()
        for knowledge, part in table[table["metric"] == name].groupby("knowledge", sort=False)
    ]
    first, tests = "".join(table["first"].head(1)), int(table["p"].notna().sum())
    return Document("Studies side by side", [_NOTE.format(first=first, tests=tests)], tables)


def _table(part: pd.DataFrame, score: Score, knowledge: str) -> Table:
    decimals = score.places(score.scale * part["mean"])
    names = list(part["defence"].unique())
    columns: list[tuple[str, str, list[str]]] = [("", "defence", names)]
    for study, rows in part.groupby("study", sort=False):
        found = list(records(rows.set_index("defence").reindex(names)))
        columns.append((str(study), "mean", [_mean(row, score, decimals) for row in found]))
        if study != part["first"].iloc[0]:
            columns.append((str(study), "Δ", [_delta(row, score, decimals) for row in found]))
    groups, titles, cells = zip(*columns, strict=True)
    caption = f"{score.worst}, {knowledge}" if knowledge else score.worst
    return Table(caption, titles, tuple(zip(*cells, strict=True)), groups)


def _mean(row: Row, score: Score, decimals: int) -> str:
    if math.isnan(row["n_seeds"]):
        return NONE
    failed = f"failed ({row['n_failed']:.0f} of {row['n_seeds']:.0f})" if row["n_failed"] else ""
    late = row["n_unconverged"] > 0
    number = spread(row["mean"], row["ci_high"], decimals, score.scale, unconverged=late)
    return ", ".join(part for part in (number, failed) if part not in ("", NONE)) or NONE


def _delta(row: Row, score: Score, decimals: int) -> str:
    if math.isnan(row["delta"]):
        return NONE
    sign = "+" if row["delta"] >= 0 else ""
    number = spread(row["delta"], row["delta_high"], decimals, score.scale)
    return sign + number + ("*" if is_shown(row) else MARK if is_unconverged(row) else "")
