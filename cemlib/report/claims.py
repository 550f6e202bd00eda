"""Write sentences about the comparisons that claim no more than the corrected test shows."""

import math
from collections.abc import Sequence

import pandas as pd

from cemlib.records.scores import SCORES, TESTED, decimals, marked
from cemlib.report.comparisons import AT_CHANCE, UNCONVERGED
from cemlib.report.style import readable
from cemlib.report.tables import records
from cemlib.report.worst_case import CEILING, WORST_CASE
from cemlib.report.writer import Row

_HEAD = """\
Each defence is compared with {reference} on the same seeds. The worst-case MSE is tested by a
paired t test, with Holm's correction (number of tests: {tests}). Brackets hold the 95 %
confidence interval of the difference over the seeds, not corrected. Accuracy is not tested. "No
significant difference" is no evidence of equality, since more seeds may show one.
"""


_HEAD_OF_SWEEPS = """\
The mean curve of each sweep is read at the same test accuracies, and compared with that of
{reference}, the first. The difference in worst-case MSE is tested by a paired t test of the seeds'
jackknife pseudo-values, with Holm's correction (number of tests: {tests}). Brackets hold the 95 %
confidence interval of the difference, not corrected. "No significant difference" is no evidence of
equality, since more seeds may show one.
"""

_NOTHING_OF_SWEEPS = """\
There is nothing to compare, because no accuracy lies on the curves of all sweeps. Give the sweeps
weaker or stronger members, train longer if classifiers are at chance, and see the failed results if
there are any.
"""


def is_shown(row: Row) -> bool:
    """Return whether the corrected test supports a difference."""
    return row["verdict"] in ("higher", "lower")


def claims(table: pd.DataFrame, warned: Sequence[str] = ()) -> str:
    """Return what a table shows, as `sentences` says it, and the warnings, as Markdown."""
    parts = ["# What the comparisons show\n", basis(table)]
    for case, claimed in sentences(table).items():
        parts += _part(f"Attacker with {case}", claimed)
    return "\n".join([*parts, *_part("Warnings", warned)])


def basis(table: pd.DataFrame) -> str:
    """Return a paragraph that says what the `sentences` about a table rest on."""
    if not sentences(table):
        return _NOTHING_OF_SWEEPS if "family" in table else "There is nothing to compare.\n"
    head = _HEAD_OF_SWEEPS if "family" in table else _HEAD
    reference, tests = readable(table["reference"].iloc[0]), table["p_holm"].notna().sum()
    return head.format(reference=reference, tests=tests)


def _part(title: str, told: Sequence[str]) -> list[str]:
    lines = (f"- {sentence}\n" for sentence in told)
    return [f"## {title}\n\n{''.join(lines)}"] if told else []


def sentences(table: pd.DataFrame) -> dict[str, list[str]]:
    """Return the claims of `comparisons_table` (`tradeoff_table`) by knowledge (and accuracy)."""
    if "family" in table:
        return _sentences_of_sweeps(table)
    accuracy = {row["defence"]: row for row in records(table) if row["metric"] == "top1"}
    found: dict[str, list[str]] = {}
    for row in records(table[table["metric"] == TESTED]):
        told = claim(row, accuracy.get(row["defence"]))
        found.setdefault(readable(row["knowledge"]), []).append(told)
    return found


def _sentences_of_sweeps(table: pd.DataFrame) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in records(table[table["family"] != table["reference"]]):
        ours, theirs = readable(row["family"]), readable(row["reference"])
        told = (
            f"{ours}: no number, because its curve and that of {theirs} do not both reach this"
            " accuracy on the seeds that they share, with all of them and without any one."
        )
        if math.isfinite(row["difference"]):
            told = claim(row | {"defence": row["family"], "metric": TESTED})
        case = f"{readable(row['knowledge'])}, at {row['accuracy']:g} % accuracy"
        found.setdefault(case, []).append(told)
    return found


def warnings(summary: pd.DataFrame) -> list[str]:
    """Return a sentence for each row of `summary_table` that may mislead about a defence."""
    worst = summary[summary["attack"] == WORST_CASE]
    chance = worst[worst["n_at_chance"] > 0].drop_duplicates("defence")
    found = [
        f"{readable(row['defence'])}: the classifier is at chance on {row['n_at_chance']} of"
        f" {row['n_seeds']} seeds, so its privacy scores mean nothing."
        for row in records(chance)
    ]
    seen = worst[worst["n_selected_on_test"] > 0].drop_duplicates("defence")
    found += [
        f"{readable(row['defence'])}: the deployed epoch was chosen on the test images, so its"
        " accuracy is too high."
        for row in records(seen)
    ]
    blind = worst[worst["strongest"].str.contains(rf"\b{CEILING}\b", na=False)]
    return found + [
        f"{readable(row['defence'])}: with {readable(row['knowledge'])}, on at least one seed no"
        " attack was better than the mean image; a stronger attack might be."
        for row in records(blind)
    ]


def claim(row: Row, accuracy: Row | None = None) -> str:
    """Return the sentence about a row of the MSE; the row `accuracy` is reported as its cost."""
    if row["n_pairs"] == 0:
        reference = readable(row["reference"])
        return f"{_verdict(row)}: there is no seed on which both it and {reference} have a result."
    numbers = f"MSE {_amount(row)}"
    if _is_tested(row) and row["verdict"] not in (UNCONVERGED, AT_CHANCE):
        p = "p < 0.001" if row["p_holm"] < 0.001 else f"p = {row['p_holm']:.3f}"
        numbers += f", {p}, {row['n_pairs']} pairs of seeds"
    cost = f"; accuracy {_amount(accuracy)} percentage points" if accuracy else ""
    if accuracy and accuracy["n_pairs"] != row["n_pairs"]:
        cost += f", on {accuracy['n_pairs']} pairs of seeds, since attacks failed"
    return f"{_verdict(row)} ({numbers}{cost})."


def _verdict(row: Row) -> str:
    name = marked(readable(row["defence"]), row["unconverged"] != "")
    reference = readable(row["reference"])
    if row["verdict"] == UNCONVERGED:
        which = readable(row["unconverged"]).replace(", ", " and on ")
        return f"{name}: no verdict, because the attack on {which} had not converged"
    if row["verdict"] == AT_CHANCE:
        return f"{name}: no verdict, because it or {reference} rests on a classifier at chance"
    if not _is_tested(row):
        return f"{name} could not be tested"
    if not is_shown(row):
        return f"{name}: no significant difference from {reference}"
    side = "more" if row["verdict"] == SCORES[TESTED].better else "less"
    return f"{name} is significantly {side} private than {reference}"


def _is_tested(row: Row) -> bool:
    return not math.isnan(row["p_holm"])


def _amount(row: Row) -> str:
    """Return a difference and its interval with signs, in the unit of its tables."""
    scale = SCORES[row["metric"]].scale
    values = [scale * row[key] for key in ("difference", "ci_low", "ci_high")]
    # As many decimals as the largest needs: the digits of a mean near 0 may be rounding errors.
    places = decimals(max(abs(value) for value in values if math.isfinite(value)))
    mean, *ends = (f"{value:+z.{places}f}".replace("-", "−") for value in values)
    return mean if math.isnan(row["ci_low"]) else f"{mean} [{', '.join(ends)}]"
