"""The summary as tables for people, laid out like a paper's Table 1."""

import math
from collections.abc import Sequence

import pandas as pd

from cemlib.report.cells import NONE, spread
from cemlib.report.tables import is_marked, records
from cemlib.report.worst_case import WORST_CASE, release_counts, worst_case_name
from cemlib.report.writer import Document, Table
from cemlib.scores import ATTACK_SCORES, IDENTIFICATION, RUN_SCORES, SCORES

_Column = tuple[str, str, list[str]]  # group, title and cells


def summary_document(summary: pd.DataFrame) -> Document:
    """Return the tables of the summary: the worst case first, then each attack."""
    worst, *more = _worst_cases(summary)
    attacks = [name for name in summary["attack"].unique() if name not in (worst, *more)]
    tables = [
        _table(summary[summary["attack"] == worst], "Worst case: the strongest attack on each run"),
        *([_releases_table(summary)] if more else []),
        *(_table(summary[summary["attack"] == name], f"Attack: {name}") for name in attacks),
    ]
    return Document("Accuracy and privacy", [_note(summary)], tables)


def _note(summary: pd.DataFrame) -> str:
    fewest, most = summary["n_seeds"].min(), summary["n_seeds"].max()
    seeds = f"{most}" if fewest == most else f"{fewest} to {most}"
    values = (
        "One seed, therefore no intervals."
        if most == 1
        else f"Mean over {seeds} seeds ± half width of the 95 % Student-t interval."
    )
    return f"{values} Arrows point to the better side for the defender."


def _worst_cases(summary: pd.DataFrame) -> list[str]:
    """Return the names of the worst cases in the column ``attack``, from one release to many."""
    return [worst_case_name(queries) for queries in release_counts(summary)]


def _table(rows: pd.DataFrame, caption: str) -> Table:
    """Lay out the defence, the scores of its runs, then for each knowledge those of the attack."""
    first = _by_defence(rows, rows.drop_duplicates("defence"))
    columns = [("", SCORES[name].heading, _cells(first, name)) for name in RUN_SCORES]
    identified = rows[f"{IDENTIFICATION}_mean"].notna().any()
    scores = (*ATTACK_SCORES, IDENTIFICATION) if identified else ATTACK_SCORES
    for knowledge in rows["knowledge"].unique():
        part = _by_defence(rows, rows[rows["knowledge"] == knowledge])
        columns += [(knowledge, SCORES[name].heading, _cells(part, name)) for name in scores]
        if WORST_CASE in set(rows["attack"]):
            names = part["strongest"].fillna("").tolist()
            columns.append((knowledge, "strongest attack", [name or NONE for name in names]))
    return _assembled(rows, caption, columns)


def _releases_table(summary: pd.DataFrame) -> Table:
    """Lay out the MSE of the worst case: for each knowledge a column per number of releases."""
    rows = summary[summary["attack"].isin(_worst_cases(summary))]
    columns = [
        (
            str(knowledge),
            f"n = {queries}",
            _cells(_by_defence(rows, part[part["queries"] == queries]), "mse"),
        )
        for knowledge, part in rows.groupby("knowledge", sort=False)
        for queries in release_counts(summary)
    ]
    caption = (
        "Worst case against the number of releases: "
        "MSE ↑ of the strongest attack on at most n releases of an image"
    )
    return _assembled(rows, caption, columns)


def _by_defence(rows: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    """Return one row of a part for each defence of some rows, of NaN where it has none."""
    return part.set_index("defence").reindex(rows["defence"].unique())


def _assembled(rows: pd.DataFrame, caption: str, columns: Sequence[_Column]) -> Table:
    """Put the names of the defences before some columns."""
    names = [str(defence) for defence in rows["defence"].unique()]
    groups, titles, cells = zip(("", "defence", names), *columns, strict=True)
    return Table(caption, titles, tuple(zip(*cells, strict=True)), groups)


def _cells(rows: pd.DataFrame, name: str) -> list[str]:
    score = SCORES[name]
    decimals = score.places(score.scale * rows[f"{name}_mean"])
    return [_cell(row, name, decimals) for row in records(rows)]


def _cell(row: dict[str, float], name: str, decimals: int) -> str:
    score, wanted = SCORES[name], row["n_seeds"]
    if math.isnan(wanted):
        return NONE
    failed = row["n_failed_runs" if score.of_runs else "n_failed"]
    failures = f"failed ({failed:.0f} of {wanted:.0f})"
    if failed == wanted:
        return failures
    mean, high = row[f"{name}_mean"], row[f"{name}_ci_high"]
    number = spread(mean, high, decimals, score.scale, unconverged=is_marked(row, name))
    return f"{number}, {failures}" if failed else number
