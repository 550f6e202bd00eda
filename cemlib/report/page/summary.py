"""The summary table of the page, and the sentences about what failed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cemlib.marks import marked
from cemlib.report.page.contents import Cell, Column, Summary, SummaryRow
from cemlib.report.style import readable
from cemlib.report.tables import is_marked, records


@dataclass(frozen=True)
class Score:
    """A score of the summary and how it is written."""

    name: str
    title: str
    note: str
    decimals: int
    scale: float = 1.0
    digits: int = 0  # at least this many significant digits for the smallest mean

    @property
    def of_runs(self) -> bool:
        """Whether it is the classifier's and not an attack's."""
        return self.name in ("top1", "leakage_nats")


SCORES = (
    Score("top1", "Top-1 [%] ↑", "accuracy of the classifier as deployed", 2, scale=100),
    Score(
        "leakage_nats",
        "Leakage bound [nats] ↓",
        "estimate of an upper bound on what a release tells",
        1,
    ),
    Score("mse", "MSE ↑", "mean squared error of the reconstructions", 4, digits=3),
    Score("ssim", "SSIM ↓", "structural similarity of reconstruction and original", 3),
    Score("psnr", "PSNR [dB] ↓", "peak signal-to-noise ratio of the reconstructions", 2),
    Score("recon_top1", "Identified [%] ↓", "reconstructions put in the right class", 1, scale=100),
)
_NAMES = (
    Column("Defence", "name in the configuration"),
    Column("Attack", "worst case: the strongest attack on each run"),
    Column("Attacker has", "what the attacker trained on"),
)
_COUNTS = (
    Column("Releases", "releases of the same image that the attacker sees", numeric=True),
    Column("Seeds", "results that the means are over, and failed ones", numeric=True),
    Column("Strongest", "which attacks the worst case is made of"),
)


def summary(table: pd.DataFrame) -> Summary:
    """The rows of `summary_table`, laid out; scores that nobody measured are left out."""
    measured = [score for score in SCORES if _is_measured(table, score)]
    titles = [Column(score.title, score.note, numeric=True) for score in measured]
    decimals = {score.name: _decimals(table, score) for score in measured}
    rows = [
        SummaryRow(row["defence"], row["attack"], row["knowledge"], _cells(row, measured, decimals))
        for row in records(table)
    ]
    return Summary((*_NAMES, *titles, *_COUNTS), rows)


def failures(runs: pd.DataFrame, attacks: pd.DataFrame) -> list[str]:
    """A sentence for each failed result; attacks that failed with their run are not listed."""
    failed_runs = list(records(runs[runs["status"] == "failed"]))
    lost = {(run["defence"], run["seed"]) for run in failed_runs}
    lines = [f"{run['defence']}, seed {run['seed']}: {run['reason']}" for run in failed_runs]
    for row in records(attacks[attacks["status"] == "failed"]):
        if (row["defence"], row["seed"]) not in lost:
            where = f"{row['attack']}, {row['knowledge']}, on {row['defence']}, seed {row['seed']}"
            lines.append(f"{where}: {row['reason']}")
    return lines


def number(value: float, decimals: int) -> str:
    """A number as it is printed; what is infinite is no digit."""
    return "∞" if math.isinf(value) else f"{value:.{decimals}f}"


def _cells(
    row: Mapping[str, Any], scores: Sequence[Score], decimals: Mapping[str, int]
) -> list[Cell]:
    names = [row["defence"], row["attack"], row["knowledge"]]
    return [
        *(Cell(readable(name), order=name) for name in names),
        *(_score_cell(row, score, decimals[score.name]) for score in scores),
        Cell(str(row["queries"]), order=str(row["queries"])),
        _count_cell(row),
        Cell(readable(row["strongest"]) or "–", order=row["strongest"]),
    ]


def _score_cell(row: Mapping[str, Any], score: Score, decimals: int) -> Cell:
    mean, low, high = (row[f"{score.name}_{part}"] for part in ("mean", "ci_low", "ci_high"))
    if math.isnan(mean):
        failed = row["n_failed_runs"] if score.of_runs else row["n_failed"]
        return Cell("failed" if failed == row["n_seeds"] else "not measured")
    written = marked(number(score.scale * mean, decimals), is_marked(row, score.name))
    if math.isnan(low):
        return Cell(written, note="no interval", order=repr(mean))
    bounds = [number(score.scale * bound, decimals) for bound in (low, high)]
    spread = f"± {score.scale * (high - low) / 2:.{decimals}f}"
    return Cell(written, spread, f"95 % interval {bounds[0]} to {bounds[1]}", order=repr(mean))


def _count_cell(row: Mapping[str, Any]) -> Cell:
    wanted, failed = row["n_seeds"], row["n_failed"]
    text = f"{wanted - failed} ({failed} failed)" if failed else str(wanted)
    return Cell(text, order=str(wanted - failed))


def _is_measured(table: pd.DataFrame, score: Score) -> bool:
    return score.name != "recon_top1" or bool(table[f"{score.name}_mean"].notna().any())


def _decimals(table: pd.DataFrame, score: Score) -> int:
    """Decimals that leave the smallest mean its significant digits, at least the usual number."""
    means = [m for m in table[f"{score.name}_mean"].tolist() if math.isfinite(m) and m > 0]
    if not (score.digits and means):
        return score.decimals
    return max(score.decimals, score.digits - 1 - math.floor(math.log10(min(means))))
