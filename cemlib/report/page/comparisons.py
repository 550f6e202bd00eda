"""Paired comparisons in words that claim no more than the test shows."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from cemlib.report.page.contents import Comparison
from cemlib.report.page.summary import SCORES, Score, records
from cemlib.report.style import readable, significant

_NAMES = {
    "top1": "accuracy [percentage points]",
    "mse": "worst-case MSE",
    "ssim": "worst-case SSIM",
    "psnr": "worst-case PSNR [dB]",
    "recon_top1": "identified [percentage points]",
}
_MORE_PRIVATE = {"mse": "higher", "ssim": "lower", "psnr": "lower", "recon_top1": "lower"}


def comparisons(table: pd.DataFrame) -> list[Comparison]:
    """The rows of `comparisons_table`, with a sentence for each."""
    return [_comparison(row) for row in records(table)]


def _comparison(row: Mapping[str, Any]) -> Comparison:
    score = next(score for score in SCORES if score.name == row["metric"])
    knowledge = row["knowledge"] if isinstance(row["knowledge"], str) else ""
    shown = row["verdict"] in ("higher", "lower")
    return Comparison(
        defence=row["defence"],
        score=_NAMES[score.name],
        knowledge=knowledge,
        difference=_difference(row, score),
        p="–" if math.isnan(row["p_holm"]) else _p_value(row["p_holm"]),
        shown=shown,
        words=_words(row, score),
    )


def _difference(row: Mapping[str, Any], score: Score) -> str:
    if math.isnan(row["difference"]):
        return "–"
    signs = [_signed(score.scale * row[key]) for key in ("difference", "ci_low", "ci_high")]
    if math.isnan(row["ci_low"]):
        return signs[0]
    return f"{signs[0]} [{signs[1]}, {signs[2]}]"


def _signed(value: float) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return f"{sign}{significant(abs(value))}"


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _words(row: Mapping[str, Any], score: Score) -> str:
    reference, pairs = readable(row["reference"]), int(row["n_pairs"])
    if math.isnan(row["p_holm"]):
        reason = "a value is not finite" if pairs > 1 else f"{pairs} pair of seeds is too few"
        return f"Not tested: {reason}."
    if row["verdict"] not in ("higher", "lower"):
        return f"No difference to {reference} shown by {pairs} pairs; that is no proof of equality."
    better = _MORE_PRIVATE.get(score.name)
    side = (
        "" if better is None else f", the {'better' if row['verdict'] == better else 'worse'} side"
    )
    return f"{row['verdict'].capitalize()} than {reference}{side}: shown by {pairs} pairs of seeds."
