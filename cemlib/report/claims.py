"""What may be said of each paired comparison: no more than the corrected test supports."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from cemlib.marks import marked
from cemlib.report.style import readable, significant
from cemlib.report.tables import records
from cemlib.report.verdicts import UNCONVERGED
from cemlib.scores import SCORES

Row = Mapping[str, Any]


_HEAD = """\
# What the comparisons show

Every defence against {reference}, paired over the seeds. A difference is claimed where p is below
0.05 after Holm's correction over all {tests} comparisons of the study that could be tested, and
every attack that is quoted had converged. In brackets: the 95 % interval over seeds of that
difference alone, not corrected. g_z: the difference in standard deviations of the paired
differences, corrected for few seeds.
"""
_UNFINISHED = (
    "The attack named had not converged on at least one seed: a longer one may find more.\n"
)
_EQUALITY = "These seeds do not show one. That is no proof of equality: more seeds may show one.\n"


def is_shown(row: Row) -> bool:
    """Whether the corrected test supports a difference."""
    return row["verdict"] in ("higher", "lower")


def is_tested(row: Row) -> bool:
    """Whether there was anything to test."""
    return not math.isnan(row["p_holm_study"])


def is_unconverged(row: Row) -> bool:
    """Return whether no verdict is drawn, because an attack had not converged."""
    return bool(row["verdict"] == UNCONVERGED)


def claim(row: Row) -> str:
    """The sentence for one row of `comparisons_table`."""
    reference, pairs = readable(row["reference"]), int(row["n_pairs"])
    if is_unconverged(row):
        return f"No verdict is drawn: the {_attacks(row)} had not converged."
    if not is_tested(row):
        return f"Not tested: {_why_not(row, pairs)}."
    if not is_shown(row):
        return f"No difference to {reference} shown by {pairs} pairs; that is no proof of equality."
    effect = "" if math.isnan(row["g_z"]) else f" g_z {significant(abs(row['g_z']), 2)},"
    return (
        f"{readable(row['defence'])} {_change(row)} over {reference} by {_amount(row)}"
        f"{_side(row)}: shown by {pairs} pairs of seeds,{effect}"
        f" p (Holm) {p_value(row['p_holm_study'])}."
    )


def claims(table: pd.DataFrame) -> str:
    """What the rows of `comparisons_table` support, as Markdown."""
    rows = list(records(table))
    if not rows:
        return "# What the comparisons show\n\nThere is one defence: nothing to compare it with.\n"
    head = _HEAD.format(reference=rows[0]["reference"], tests=sum(map(is_tested, rows)))
    shown = "\n".join(f"- {claim(row)}" for row in rows if is_shown(row))
    parts = [
        head,
        "## Shown\n",
        f"{shown or 'Nothing.'}\n",
        *_listed("## No difference shown\n\n" + _EQUALITY, rows, _is_open),
        *_listed("## No verdict\n\n" + _UNFINISHED, rows, is_unconverged),
        *_listed("## Not tested\n", rows, _is_untestable),
    ]
    return "\n".join(parts)


def p_value(p: float) -> str:
    """A p value with three decimals, none for what has none."""
    return "-" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _why_not(row: Row, pairs: int) -> str:
    if pairs < 2:
        return f"{pairs} pair of seeds is too few"
    if math.isnan(row["difference"]):
        return "a value is not finite"
    return "the seeds' differences are all equal, so that nothing says how far they spread"


def _is_open(row: Row) -> bool:
    return is_tested(row) and not is_shown(row) and not is_unconverged(row)


def _is_untestable(row: Row) -> bool:
    return not is_tested(row) and not is_unconverged(row)


def _listed(head: str, rows: Sequence[Row], chosen: Callable[[Row], bool]) -> list[str]:
    """The defences of some rows by score, below a head; nothing where there are none."""
    names: dict[str, list[str]] = {}
    for row in filter(chosen, rows):
        late = is_unconverged(row)
        score = f"{_score(row)}, {_attacks(row)}" if late else _score(row)
        names.setdefault(score, []).append(marked(readable(row["defence"]), late))
    lines = [f"- {score}: {', '.join(found)}" for score, found in names.items()]
    return [head, "\n".join(lines) + "\n"] if lines else []


def _attacks(row: Row) -> str:
    """The attacks that had not converged, by the defences that they are on."""
    return f"attack on {readable(row['unconverged']).replace(', ', ' and on ')}"


def _change(row: Row) -> str:
    return f"{'raises' if row['verdict'] == 'higher' else 'lowers'} {_score(row)}"


def _score(row: Row) -> str:
    title = SCORES[row["metric"]].subject
    return f"{title} ({readable(row['knowledge'])})" if row["knowledge"] else title


def _amount(row: Row) -> str:
    """How much higher or lower, with the interval in the same direction."""
    score = SCORES[row["metric"]]
    ends = [score.scale * row[key] for key in ("difference", "ci_low", "ci_high")]
    if row["verdict"] == "lower":
        ends = [-ends[0], -ends[2], -ends[1]]
    mean, low, high = map(significant, ends)
    return f"{mean} [{low}, {high}]" + (f" {score.step}" if score.step else "")


def _side(row: Row) -> str:
    """On which side of privacy a difference is; accuracy has none."""
    score = SCORES[row["metric"]]
    if score.of_runs:
        return ""
    return f", the {'better' if row['verdict'] == score.better else 'worse'} side"
