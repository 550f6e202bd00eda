"""What may be said of each paired comparison: no more than the corrected test supports."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cemlib.records.scores import SCORES, TESTED, marked
from cemlib.report.comparisons import UNCONVERGED
from cemlib.report.style import readable, significant
from cemlib.report.tables import records

Row = Mapping[str, Any]

_HEAD = """\
# What the comparisons show

Every defence against {reference}, paired over the seeds. Tested is the worst-case MSE: a difference
is claimed where p is below 0.05 after Holm's correction over all {tests} defences and knowledges
that could be tested, and every attack that is quoted had converged. In brackets: the 95 % interval
over seeds of that difference alone, not corrected. g_z: the difference in standard deviations of
the paired differences, corrected for few seeds. Accuracy, SSIM and identification are not tested;
comparisons.html has their intervals.
"""
_UNFINISHED = (
    "The attack named had not converged on at least one seed: a longer one may find more.\n"
)
_EQUALITY = "These seeds do not show one. That is no proof of equality: more seeds may show one.\n"


def is_shown(row: Row) -> bool:
    """Return whether the corrected test supports a difference."""
    return row["verdict"] in ("higher", "lower")


def is_unconverged(row: Row) -> bool:
    """Return whether a difference rests on an attack that had not converged."""
    return bool(row["unconverged"])


def claim(row: Row) -> str:
    """Return the sentence for a row of `comparisons_table` whose difference is shown."""
    effect = "" if math.isnan(row["g_z"]) else f" g_z {significant(abs(row['g_z']), 2)},"
    side = "better" if row["verdict"] == SCORES[TESTED].better else "worse"
    does = "raises" if row["verdict"] == "higher" else "lowers"
    p = "< 0.001" if row["p_holm"] < 0.001 else f"{row['p_holm']:.3f}"
    return (
        f"{readable(row['defence'])} {does} {_score(row)} over {readable(row['reference'])} by"
        f" {_amount(row)}, the {side} side: shown by {row['n_pairs']} pairs of seeds,{effect}"
        f" p (Holm) {p}."
    )


def claims(table: pd.DataFrame) -> str:
    """Return what the rows of `comparisons_table` support, as Markdown."""
    rows = [row for row in records(table) if row["metric"] == TESTED]
    if not rows:
        return "# What the comparisons show\n\nThere is one defence: nothing to compare it with.\n"
    head = _HEAD.format(
        reference=rows[0]["reference"], tests=sum(not math.isnan(row["p_holm"]) for row in rows)
    )
    shown = "\n".join(f"- {claim(row)}" for row in rows if is_shown(row))
    neither = [row for row in rows if not (is_shown(row) or _is_unsure(row) or _is_untested(row))]
    parts = [
        head,
        f"## Shown\n\n{shown or 'Nothing.'}\n",
        *_listed(f"## No difference shown\n\n{_EQUALITY}", neither),
        *_listed(f"## No verdict\n\n{_UNFINISHED}", list(filter(_is_unsure, rows))),
        *_listed("## Not tested\n", list(filter(_is_untested, rows))),
    ]
    return "\n".join(parts)


def _is_unsure(row: Row) -> bool:
    return bool(row["verdict"] == UNCONVERGED)


def _is_untested(row: Row) -> bool:
    return math.isnan(row["p_holm"]) and row["verdict"] != UNCONVERGED


def _listed(head: str, rows: Sequence[Row]) -> list[str]:
    """Return a head and the defences of some rows by score; nothing without rows."""
    names: dict[str, list[str]] = {}
    for row in rows:
        late = is_unconverged(row)
        attacks = readable(row["unconverged"]).replace(", ", " and on ")
        score = f"{_score(row)}, attack on {attacks}" if late else _score(row)
        names.setdefault(score, []).append(marked(readable(row["defence"]), late))
    lines = [f"- {score}: {', '.join(found)}" for score, found in names.items()]
    return [head, "\n".join(lines) + "\n"] if lines else []


def _score(row: Row) -> str:
    title = SCORES[row["metric"]].subject
    return f"{title} ({readable(row['knowledge'])})" if row["knowledge"] else title


def _amount(row: Row) -> str:
    """Return how much higher or lower, with the interval in the same direction."""
    ends = [row[key] for key in ("difference", "ci_low", "ci_high")]
    if row["verdict"] == "lower":
        ends = [-ends[0], -ends[2], -ends[1]]
    mean, low, high = map(significant, ends)
    return f"{mean} [{low}, {high}]"
