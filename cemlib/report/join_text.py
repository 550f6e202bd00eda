"""Joined studies as tables for people: one for each score and knowledge, a column per study."""

import math
from typing import Any

import pandas as pd

from cemlib.marks import MARK, marked
from cemlib.report.claims import is_shown, is_unconverged
from cemlib.report.render import (
    Column,
    Table,
    column_decimals,
    escape,
    latex_table,
    markdown_table,
)
from cemlib.report.tables import records

_SCORES = (
    Column("top1", "top-1 [%] ↑", 2, scale=100),
    Column("leakage_nats", "leakage bound [nats] ↓", 1),
    Column("mse", "worst-case MSE ↑", 4, digits=3),
    Column("ssim", "worst-case SSIM ↓", 3),
    Column("psnr", "worst-case PSNR [dB] ↓", 2),
    Column("recon_top1", "worst-case identified [%] ↓", 2, scale=100),
)
NOTE = (
    "Mean over seeds ± half width of its 95 % Student-t interval. Δ: the mean minus that of"
    " {first}, ± half width of Welch's 95 % interval; runs of different studies are no pairs. With"
    " *, the test of no difference is rejected at 5 % after Holm's correction over all {tests}"
    " differences. Arrows point to the better side for the defender. Another error on other images"
    " may say more of the images than of the defence: within a study, its own comparisons.csv"
    " compares defences."
)


def joined_markdown(table: pd.DataFrame) -> str:
    """Every table in Markdown."""
    texts = "\n".join(markdown_table(each) for each in tables(table))
    return f"# Studies side by side\n\n{_note(table)}\n\n{texts}"


def joined_latex(table: pd.DataFrame) -> str:
    """The same tables in LaTeX; they need the package ``booktabs``."""
    texts = "\n".join(latex_table(each) for each in tables(table))
    return f"% {escape(_note(table))}\n\n{texts}"


def tables(table: pd.DataFrame) -> list[Table]:
    """One for each score and knowledge that the joined table has, defences as rows."""
    return [
        _table(part, score, str(knowledge))
        for score in _SCORES
        for knowledge, part in table[table["metric"] == score.score].groupby(
            "knowledge", sort=False
        )
    ]


def _note(table: pd.DataFrame) -> str:
    first = "".join(table["first"].head(1))
    return NOTE.format(first=first, tests=int(table["p"].notna().sum()))


def _table(part: pd.DataFrame, score: Column, knowledge: str) -> Table:
    decimals = column_decimals([score.scale * mean for mean in part["mean"]], score)
    names = list(part["defence"].unique())
    columns: list[tuple[str, str, list[str]]] = [("", "defence", names)]
    for study, rows in part.groupby("study", sort=False):
        found = rows.set_index("defence").reindex(names)
        columns.append(
            (str(study), "mean", [_mean(row, score, decimals) for row in records(found)])
        )
        if study != part["first"].iloc[0]:
            deltas = [_delta(row, score, decimals) for row in records(found)]
            columns.append((str(study), "Δ", deltas))
    groups, titles, cells = zip(*columns, strict=True)
    caption = f"{score.title}, {knowledge}" if knowledge else score.title
    return Table(caption, groups, titles, tuple(zip(*cells, strict=True)))


def _mean(row: dict[str, Any], score: Column, decimals: int) -> str:
    if math.isnan(row["n_seeds"]):
        return "-"
    failed = f"failed ({row['n_failed']:.0f} of {row['n_seeds']:.0f})" if row["n_failed"] else ""
    unconverged = row["n_unconverged"] > 0
    number = marked(_number(row["mean"], row["ci_high"], score, decimals), unconverged)
    return ", ".join(part for part in (number, failed) if part)


def _delta(row: dict[str, Any], score: Column, decimals: int) -> str:
    number = _number(row["delta"], row["delta_high"], score, decimals, sign="+")
    sign = "*" if is_shown(row) else MARK if is_unconverged(row) else ""
    return number + sign if number else "-"


def _number(mean: float, high: float, score: Column, decimals: int, sign: str = "") -> str:
    if math.isnan(mean):
        return ""
    if math.isinf(mean):
        return "∞"
    half = score.scale * (high - mean)
    spread = "" if math.isnan(half) else f" ± {half:.{decimals}f}"
    return f"{score.scale * mean:{sign}.{decimals}f}{spread}"
