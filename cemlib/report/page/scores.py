"""The scores of the single images that an attack shows.

The attack job writes the scores of all images and pictures of some; which ones follows from the
same scores. What is shown here keeps the rules of `cemlib.evaluation.pictures`.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def extreme_rows(scores: pd.DataFrame, count: int) -> list[int]:
    """Rows of the ``count`` images of a strip of extremes: lowest MSE first, highest last.

    Among equal ones the earlier image is the less protected.
    """
    order = np.argsort(scores["mse"].to_numpy(), kind="stable").tolist()
    half = count // 2
    return [*order[:half], *order[len(order) - half :]]


def first_public(attacks: Sequence[pd.DataFrame]) -> int | None:
    """Index of the first test image that a `public_data` attacker does not own, from its scores."""
    found = [int(scores["index"].min()) for scores in attacks if len(scores)]
    return min(found, default=None)


def shown_rows(scores: pd.DataFrame, first: int | None, count: int) -> list[int]:
    """Rows of the ``count`` images of a strip of reconstructions.

    They are the first of each class from ``first`` on, in the order of the classes; none where
    that does not give so many.
    """
    if first is None:
        return []
    tail = scores.reset_index(drop=True)
    tail = tail[tail["index"] >= first]
    rows = tail.drop_duplicates("label").sort_values("label").index[:count].tolist()
    return rows if len(rows) == count else []
