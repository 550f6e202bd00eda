"""What a comparison shows, and where none may be drawn because an attack had not converged."""

import numpy as np
import pandas as pd

from cemlib.report.statistics import LEVEL
from cemlib.report.worst_case import RECOGNISER
from cemlib.scores import IDENTIFICATION, RUN_SCORES

NOT_SHOWN = "no difference shown"
UNCONVERGED = "unconverged"


def unconverged(rows: pd.DataFrame, score: str) -> "pd.Series[bool]":
    """Say of each result whether a score of it rests on an attack that had not converged.

    Args:
        rows: runs or attacks as `collect` returns them, worst cases, or several of these.
        score: name of a score. The worst case's identification may be of another attack than its
            other scores (see `worst_case`).

    Returns:
        False where nothing is known: for closed forms and failed results.
    """
    if score in RUN_SCORES:
        return pd.Series(data=False, index=rows.index)
    quoted = rows["converged"]
    if score == IDENTIFICATION and RECOGNISER in rows:
        quoted = rows[RECOGNISER].where(rows["strongest"].notna(), quoted)
    return quoted.eq(False)


def verdicts(
    difference: "pd.Series[float]", p: "pd.Series[float]", barred: "pd.Series[bool]"
) -> list[str]:
    """Return the verdict on each difference.

    Args:
        difference: what was found.
        p: corrected p values; NaN where nothing was tested.
        barred: whether either side rests on an attack that had not converged.

    Returns:
        `UNCONVERGED` for what is barred, ``higher`` or ``lower`` where p is below .05, else
        `NOT_SHOWN`.
    """
    shown = p < 1 - LEVEL
    cases = [barred, shown & (difference > 0), shown & (difference < 0)]
    return [str(word) for word in np.select(cases, [UNCONVERGED, "higher", "lower"], NOT_SHOWN)]
