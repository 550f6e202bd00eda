"""The strongest attack on each run: a defence is only as private as its worst case."""

from collections import defaultdict
from typing import Any

import pandas as pd

WORST_CASE = "worst_case"

Row = dict[str, Any]


def worst_case(attacks: pd.DataFrame) -> pd.DataFrame:
    """Per defence, seed and knowledge, the result of the attack with the lowest MSE.

    Every attack takes part, the mean image too: an attacker would use it where it is best. Where an
    attack failed or is absent, the strongest one is not known, and the worst case counts as failed:
    otherwise the attack that diverged would make the defence look private.

    Args:
        attacks: attacks as `collect` returns them.

    Returns:
        Rows with the same columns, ``attack`` set to ``worst_case``, and ``strongest``, the name of
        the attack (empty where it is not known).
    """
    expected: dict[tuple[str, str], set[str]] = defaultdict(set)
    groups: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    for row in attacks.to_dict("records"):
        expected[row["defence"], row["knowledge"]].add(row["attack"])
        groups[row["defence"], row["seed"], row["knowledge"]].append({str(k): row[k] for k in row})
    rows = [
        _strongest(group, expected[defence, knowledge])
        for (defence, _, knowledge), group in groups.items()
    ]
    return pd.DataFrame(rows, columns=[*attacks.columns, "strongest"])


def _strongest(group: list[Row], expected: set[str]) -> Row:
    finished = [row for row in group if row["status"] == "ok"]
    unknown = expected - {row["attack"] for row in finished}
    if unknown:
        row = {key: group[0][key] for key in ("experiment", "defence", "seed", "knowledge")}
        reason = f"no result of {', '.join(sorted(unknown))}"
        row |= {"attack": WORST_CASE, "status": "failed", "reason": reason, "strongest": ""}
        return row
    best = min(finished, key=lambda row: float(row["mse"]))
    return {**best, "attack": WORST_CASE, "strongest": best["attack"]}
