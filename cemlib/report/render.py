"""The summary as tables for people: Markdown and LaTeX, laid out like a paper's Table 1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from cemlib.report.worst_case import WORST_CASE

_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
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
_ATTACK_COLUMNS = (
    Column("mse", "MSE ↑", 4, digits=3),
    Column("ssim", "SSIM ↓", 3),
    Column("psnr", "PSNR [dB] ↓", 2),
)


@dataclass(frozen=True)
class Table:
    """Text of one table: the group above each column may be empty."""

    caption: str
    groups: tuple[str, ...]
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def markdown(summary: pd.DataFrame) -> str:
    """Every table of the summary in Markdown: the worst case first, then each attack."""
    tables = "\n".join(_markdown_table(table) for table in _tables(summary))
    return f"# Accuracy and privacy\n\n{_note(summary)}\n\n{tables}"


def latex(summary: pd.DataFrame) -> str:
    """The same tables in LaTeX; they need the package ``booktabs``."""
    tables = "\n".join(_latex_table(table) for table in _tables(summary))
    return f"% {escape(_note(summary))}\n\n{tables}"


def escape(text: str) -> str:
    """``text`` with everything that LaTeX would read as a command made printable."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def _note(summary: pd.DataFrame) -> str:
    fewest, most = summary["n_seeds"].min(), summary["n_seeds"].max()
    span = f"{most}" if fewest == most else f"{fewest} to {most}"
    values = (
        "One seed, therefore no intervals."
        if most == 1
        else f"Mean over {span} seeds ± half width of the 95 % Student-t interval."
    )
    return f"{values} Arrows point to the better side for the defender."


def _tables(summary: pd.DataFrame) -> list[Table]:
    attacks = [name for name in summary["attack"].unique() if name != WORST_CASE]
    return [
        _table(summary[summary["attack"] == attack], caption)
        for attack, caption in [
            (WORST_CASE, "Worst case: the strongest attack on each run"),
            *((name, f"Attack: {name}") for name in attacks),
        ]
    ]


def _table(rows: pd.DataFrame, caption: str) -> Table:
    """Columns: the defence, the scores of its runs, then for each knowledge those of the attack."""
    defences = list(rows["defence"].unique())
    first = rows.drop_duplicates("defence").set_index("defence").reindex(defences)
    titles, groups = ["defence"], [""]
    cells = [[str(defence) for defence in defences]]
    for column in _RUN_COLUMNS:
        titles, groups = [*titles, column.title], [*groups, ""]
        cells.append(_cells(first, column, "n_failed_runs"))
    for knowledge in rows["knowledge"].unique():
        part = rows[rows["knowledge"] == knowledge].set_index("defence").reindex(defences)
        for column in _ATTACK_COLUMNS:
            titles, groups = [*titles, column.title], [*groups, str(knowledge)]
            cells.append(_cells(part, column, "n_failed"))
    return Table(caption, tuple(groups), tuple(titles), tuple(zip(*cells, strict=True)))


def _cells(rows: pd.DataFrame, column: Column, failures: str) -> list[str]:
    means = column.scale * rows[f"{column.score}_mean"]
    highs = column.scale * rows[f"{column.score}_ci_high"]
    decimals = _decimals(means.tolist(), column)
    counts = zip(rows[failures], rows["n_seeds"], strict=True)
    return [
        _cell(mean, high - mean, decimals, failed, wanted)
        for mean, high, (failed, wanted) in zip(means, highs, counts, strict=True)
    ]


def _decimals(means: Sequence[float], column: Column) -> int:
    """Decimals that leave the smallest mean its significant digits, at least the usual number."""
    positive = [mean for mean in means if math.isfinite(mean) and mean > 0]
    if not (column.digits and positive):
        return column.decimals
    return max(column.decimals, column.digits - 1 - math.floor(math.log10(min(positive))))


def _cell(mean: float, half: float, decimals: int, failed: float, wanted: float) -> str:
    if math.isnan(wanted):
        return "-"
    failures = f"({failed:.0f} of {wanted:.0f})"
    if failed == wanted:
        return f"failed {failures}"
    number = "∞" if math.isinf(mean) else f"{mean:.{decimals}f}"
    spread = "" if math.isnan(half) else f" ± {half:.{decimals}f}"
    return number + spread + (f", failed {failures}" if failed else "")


def _markdown_table(table: Table) -> str:
    titles = [
        f"{title}, {group}" if group else title
        for group, title in zip(table.groups, table.titles, strict=True)
    ]
    rule = ["---"] + ["---:"] * (len(titles) - 1)
    lines = [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
        for row in (titles, rule, *table.rows)
    ]
    return f"## {table.caption}\n\n" + "\n".join(lines) + "\n"


def _latex_table(table: Table) -> str:
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
            r"\end{table}",
            "",
        ]
    )


def _latex_header(table: Table) -> list[str]:
    """The groups over their columns with a rule under each, then the titles."""
    spans: list[tuple[str, int, int]] = []
    for position, group in enumerate(table.groups, start=1):
        if spans and group and spans[-1][0] == group:
            spans[-1] = (group, spans[-1][1], position)
        else:
            spans.append((group, position, position))
    over = [
        rf"\multicolumn{{{last - first + 1}}}{{c}}{{{escape(group)}}}" if group else ""
        for group, first, last in spans
    ]
    rules = [rf"\cmidrule(lr){{{first}-{last}}}" for group, first, last in spans if group]
    titles = " & ".join(escape(title) for title in table.titles) + r" \\"
    return [" & ".join(over) + r" \\", " ".join(rules), titles]
