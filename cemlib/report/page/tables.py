"""The tables of the results page: every mean, every comparison in words, every result's origin."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from cemlib.marks import marked
from cemlib.report.cells import NONE, interval, number, signed, spread
from cemlib.report.claims import claim, is_unconverged, p_value
from cemlib.report.style import readable
from cemlib.report.tables import is_marked
from cemlib.report.writer import Column, Row, Table, laid_out
from cemlib.scores import IDENTIFICATION, SCORES

_SHORT = 12  # characters of a checksum


def summary(table: pd.DataFrame) -> Table:
    """Lay out the rows of `summary_table`; identification is left out where nobody measured it."""
    measured = table[f"{IDENTIFICATION}_mean"].notna().any()
    names = [name for name in SCORES if measured or name != IDENTIFICATION]
    columns = [
        _named("Defence", "defence"),
        _named("Attack", "attack"),
        _named("Attacker has", "knowledge"),
        *(_score(name, table) for name in names),
        ("Releases", number("queries")),
        ("Seeds", _seeds),
        _named("Strongest", "strongest"),
    ]
    return laid_out("Means over the seeds", table, columns)


def comparisons(table: pd.DataFrame) -> Table:
    """Lay out the rows of `comparisons_table`, with a sentence for each."""
    columns: list[Column] = [
        _named("Defence", "defence"),
        ("Score", lambda row: SCORES[row["metric"]].difference),
        _named("Attacker has", "knowledge"),
        ("Difference", _difference),
        ("g_z", signed("g_z", "+.2g")),
        ("p (Holm)", lambda row: p_value(row["p_holm_study"])),
        ("In words", claim),
    ]
    return laid_out("Differences to the reference", table, columns)


def jobs(records: Iterable[Mapping[str, Any]]) -> Table:
    """Lay out where the result of each ``metrics.json`` came from."""
    columns: list[Column] = [
        _named("Defence", "defence"),
        ("Seed", number("seed", 12)),
        ("Job", _job),
        ("Status", _status),
        ("Seconds", lambda row: f"{row['wall_seconds']:.1f}"),
        ("Peak memory [MiB]", number("peak_memory_mb", 4)),
        ("Device", lambda row: row["provenance"]["device"]),
        ("Commit", lambda row: _commit(row["provenance"])),
        ("Fingerprint", lambda row: row["provenance"]["fingerprint"][:_SHORT]),
        ("Versions", _versions),
    ]
    rows = [[cell(record) for _, cell in columns] for record in records]
    return Table("Results", [title for title, _ in columns], rows)


def _named(title: str, column: str) -> Column:
    return title, lambda row: readable(row[column]) or NONE


def _score(name: str, table: pd.DataFrame) -> Column:
    score = SCORES[name]
    decimals = score.places(score.scale * table[f"{name}_mean"])

    def cell(row: Row) -> str:
        mean, high = row[f"{name}_mean"], row[f"{name}_ci_high"]
        if math.isnan(mean):
            failed = row["n_failed_runs" if score.of_runs else "n_failed"]
            return "failed" if failed == row["n_seeds"] else "not measured"
        return spread(mean, high, decimals, score.scale, unconverged=is_marked(row, name))

    return score.heading, cell


def _seeds(row: Row) -> str:
    wanted, failed = row["n_seeds"], row["n_failed"]
    return f"{wanted - failed} ({failed} failed)" if failed else str(wanted)


def _difference(row: Row) -> str:
    scale = SCORES[row["metric"]].scale
    difference = marked(signed("difference", scale=scale)(row), is_unconverged(row))
    if math.isnan(row["ci_low"]):
        return difference
    return f"{difference} [{interval(scale=scale)(row)}]"


def _job(row: Row) -> str:
    return "training" if row["kind"] == "run" else readable(f"{row['attack']}, {row['knowledge']}")


def _status(row: Row) -> str:
    return "ok" if row["status"] == "ok" else f"failed: {row['reason']}"


def _commit(source: Mapping[str, Any]) -> str:
    return f"{source['commit'][:_SHORT]}{'+' if source['dirty'] else ''}"


def _versions(row: Row) -> str:
    return ", ".join(f"{name} {found}" for name, found in row["provenance"]["versions"].items())
