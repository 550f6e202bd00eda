"""The summary as tables for people: Markdown and LaTeX, laid out like a paper's Table 1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from cemlib.marks import MARK, NOTE, marked
from cemlib.report.tables import is_marked, records
from cemlib.report.worst_case import WORST_CASE, release_counts, worst_case_name

_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "Δ": r"$\Delta$",
    MARK: r"$^\dagger$",
}


@dataclass(frozen=True)
class Column:
    """One column of numbers: a score of the summary, and how it is written."""

    score: str
    title: str
    decimals: int
    scale: float = 1.0
    digits: int = 0  # at least this many significant digits for the smallest mean


_RUN_COLUMNS = (
    Column("top1", "top-1 [%] ↑", 2, scale=100),
    Column("leakage_nats", "leakage bound [nats] ↓", 1),
)
_MSE = Column("mse", "MSE ↑", 4, digits=3)
_ATTACK_COLUMNS = (_MSE, Column("ssim", "SSIM ↓", 3), Column("psnr", "PSNR [dB] ↓", 2))
_IDENTIFIED = Column("recon_top1", "identified [%] ↓", 2, scale=100)  # older results lack it


@dataclass(frozen=True)
class Table:
    """Text of one table: the group above each column may be empty."""

    caption: str
    groups: tuple[str, ...]
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def footnote(self) -> str:
        """What the mark of unconverged attacks means; empty where no cell has it."""
        return NOTE if any(MARK in cell for row in self.rows for cell in row) else ""


def markdown(summary: pd.DataFrame) -> str:
    """Every table of the summary in Markdown: the worst case first, then each attack."""
    texts = "\n".join(markdown_table(table) for table in tables(summary))
    return f"# Accuracy and privacy\n\n{seeds_note(summary)}\n\n{texts}"


def latex(summary: pd.DataFrame) -> str:
    """The same tables in LaTeX; they need the package ``booktabs``."""
    texts = "\n".join(latex_table(table) for table in tables(summary))
    return f"% {escape(seeds_note(summary))}\n\n{texts}"


def escape(text: str) -> str:
    """``text`` with everything that LaTeX would read as a command made printable."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def seeds_note(summary: pd.DataFrame) -> str:
    """Return what a reader has to know of the numbers: how many seeds, and which way is better."""
    fewest, most = summary["n_seeds"].min(), summary["n_seeds"].max()
    span = f"{most}" if fewest == most else f"{fewest} to {most}"
    values = (
        "One seed, therefore no intervals."
        if most == 1
        else f"Mean over {span} seeds ± half width of the 95 % Student-t interval."
    )
    return f"{values} Arrows point to the better side for the defender."


def _worst_cases(summary: pd.DataFrame) -> list[str]:
    """Names of the worst cases in the column ``attack``, from one release to many."""
    return [worst_case_name(queries) for queries in release_counts(summary)]


def tables(summary: pd.DataFrame) -> list[Table]:
    """The tables of the summary: the worst case first, then each attack."""
    worst, *more = _worst_cases(summary)
    attacks = [name for name in summary["attack"].unique() if name not in (worst, *more)]
    return [
        _table(summary[summary["attack"] == worst], "Worst case: the strongest attack on each run"),
        *([_releases_table(summary)] if more else []),
        *(_table(summary[summary["attack"] == name], f"Attack: {name}") for name in attacks),
    ]


def _table(rows: pd.DataFrame, caption: str) -> Table:
    """Columns: the defence, the scores of its runs, then for each knowledge those of the attack."""
    first = _by_defence(rows, rows.drop_duplicates("defence"))
    columns = [("", score.title, _cells(first, score, "n_failed_runs")) for score in _RUN_COLUMNS]
    identified = rows[f"{_IDENTIFIED.score}_mean"].notna().any()
    scores = (*_ATTACK_COLUMNS, _IDENTIFIED) if identified else _ATTACK_COLUMNS
    for knowledge in rows["knowledge"].unique():
        part = _by_defence(rows, rows[rows["knowledge"] == knowledge])
        columns += [(knowledge, score.title, _cells(part, score, "n_failed")) for score in scores]
        if WORST_CASE in set(rows["attack"]):
            names = part["strongest"].fillna("").tolist()
            columns.append((knowledge, "strongest attack", [name or "-" for name in names]))
    return _assembled(rows, caption, columns)


def _releases_table(summary: pd.DataFrame) -> Table:
    """MSE of the worst case: for each knowledge a column per number of releases."""
    rows = summary[summary["attack"].isin(_worst_cases(summary))]
    columns = [
        (
            str(knowledge),
            f"n = {queries}",
            _cells(_by_defence(rows, part[part["queries"] == queries]), _MSE, "n_failed"),
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
    """One row of ``part`` for each defence of ``rows``, of NaN where it has none."""
    return part.set_index("defence").reindex(rows["defence"].unique())


def _assembled(
    rows: pd.DataFrame, caption: str, columns: Sequence[tuple[str, str, list[str]]]
) -> Table:
    """The table of some columns (group, title, cells), the names of the defences before them."""
    names = [str(defence) for defence in rows["defence"].unique()]
    groups, titles, cells = zip(("", "defence", names), *columns, strict=True)
    return Table(caption, groups, titles, tuple(zip(*cells, strict=True)))


def _cells(rows: pd.DataFrame, column: Column, failures: str) -> list[str]:
    means = column.scale * rows[f"{column.score}_mean"]
    highs = column.scale * rows[f"{column.score}_ci_high"]
    decimals = column_decimals(means.tolist(), column)
    flags = [is_marked(row, column.score) for row in records(rows)]
    counts = zip(rows[failures], rows["n_seeds"], flags, strict=True)
    return [
        _cell(mean, high - mean, decimals, *counted)
        for mean, high, counted in zip(means, highs, counts, strict=True)
    ]


def column_decimals(means: Sequence[float], column: Column) -> int:
    """Decimals that leave the smallest mean its significant digits, at least the usual number."""
    positive = [mean for mean in means if math.isfinite(mean) and mean > 0]
    if not (column.digits and positive):
        return column.decimals
    return max(column.decimals, column.digits - 1 - math.floor(math.log10(min(positive))))


def _cell(
    mean: float, half: float, decimals: int, failed: float, wanted: float, unconverged: bool
) -> str:
    if math.isnan(wanted):
        return "-"
    failures = f"({failed:.0f} of {wanted:.0f})"
    if failed == wanted:
        return f"failed {failures}"
    number = marked("∞" if math.isinf(mean) else f"{mean:.{decimals}f}", unconverged)
    spread = "" if math.isnan(half) else f" ± {half:.{decimals}f}"
    return number + spread + (f", failed {failures}" if failed else "")


def markdown_table(table: Table) -> str:
    """One table in Markdown, its caption as a heading."""
    titles = [
        f"{title}, {group}" if group else title
        for group, title in zip(table.groups, table.titles, strict=True)
    ]
    rule = ["---"] + ["---:"] * (len(titles) - 1)
    lines = [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
        for row in (titles, rule, *table.rows)
    ]
    note = f"\n{table.footnote}\n" if table.footnote else ""
    return f"## {table.caption}\n\n" + "\n".join(lines) + "\n" + note


def latex_table(table: Table) -> str:
    """One table in LaTeX; it needs the package ``booktabs``."""
    rows = [" & ".join(escape(cell) for cell in row) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape(table.caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.titles) - 1)}}}",
            r"\toprule",
            *_latex_header(table),
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            *([rf"\par\footnotesize {escape(table.footnote)}"] if table.footnote else []),
            r"\end{table}",
            "",
        ]
    )


def spans(groups: Sequence[str]) -> list[tuple[str, int, int]]:
    """Each group with its first and last column, from 1; columns without a group stand alone."""
    found: list[tuple[str, int, int]] = []
    for position, group in enumerate(groups, start=1):
        if found and group and found[-1][0] == group:
            found[-1] = (group, found[-1][1], position)
        else:
            found.append((group, position, position))
    return found


def _latex_header(table: Table) -> list[str]:
    """The groups over their columns with a rule under each, then the titles."""
    grouped = spans(table.groups)
    over = [
        rf"\multicolumn{{{last - first + 1}}}{{c}}{{{escape(group)}}}" if group else ""
        for group, first, last in grouped
    ]
    rules = [rf"\cmidrule(lr){{{first}-{last}}}" for group, first, last in grouped if group]
    titles = " & ".join(escape(title) for title in table.titles) + r" \\"
    return [" & ".join(over) + r" \\", " ".join(rules), titles]
