"""The strongest attack on each run: a defence is only as private as its worst case.

The plain worst case is over the attacks that see one release of each image. An attacker who may
ask n times sees n releases and can average their noise away; the worst case on n releases is over
the attacks that see at most n of them, since who may ask often may also ask once.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pandas as pd

from cemlib.records.scores import IDENTIFICATION, RUN_SCORES

WORST_CASE = "worst_case"
CEILING = "mean_image"  # the attack that uses nothing of what is released
RECOGNISER = "recogniser_converged"  # whether the attack had that ``recon_top1`` is quoted from

Row = dict[str, Any]


def worst_case_name(queries: int) -> str:
    """Return ``worst_case`` for one release, ``worst_case_16`` for 16."""
    return WORST_CASE if queries == 1 else f"{WORST_CASE}_{queries}"


def release_counts(attacks: pd.DataFrame) -> list[int]:
    """Return the numbers of releases that have a worst case: one, and each larger one."""
    return sorted({1, *map(int, attacks["queries"])})


def worst_case(attacks: pd.DataFrame, queries: int = 1) -> pd.DataFrame:
    """Return per defence, seed and knowledge the result of the attack with the lowest MSE.

    SSIM and PSNR are of that same attack, whatever others reach. Only ``recon_top1`` is the highest
    of all these attacks: one that leaves a larger error may be the one whose pictures are
    recognised.

    Every attack takes part, the mean image too: an attacker would use it where it is best. Where an
    attack failed or is absent, the strongest one is not known, and the worst case counts as failed:
    otherwise the attack that diverged would make the defence look private.

    Args:
        attacks: attacks as `collect` returns them.
        queries: only attacks that see at most so many releases take part.

    Returns:
        Rows with the same columns, ``attack`` set to `worst_case_name`, ``queries`` as given, and
        ``strongest``, the name of the attack (empty where it is not known). ``converged`` is that
        attack's; `RECOGNISER` is of the attack with the highest ``recon_top1``.
    """
    expected: dict[tuple[str, str], set[str]] = defaultdict(set)
    groups: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    for row in attacks[attacks["queries"] <= queries].to_dict("records"):
        expected[row["defence"], row["knowledge"]].add(row["attack"])
        groups[row["defence"], row["seed"], row["knowledge"]].append({str(k): row[k] for k in row})
    named = {"attack": worst_case_name(queries), "queries": queries}
    rows = [
        _strongest(group, expected[defence, knowledge]) | named
        for (defence, _, knowledge), group in groups.items()
    ]
    return pd.DataFrame(rows, columns=[*attacks.columns, "strongest", RECOGNISER])


def worst_cases(attacks: pd.DataFrame) -> pd.DataFrame:
    """Return the worst case on each number of releases of `release_counts`, one after the other."""
    return pd.concat([worst_case(attacks, queries) for queries in release_counts(attacks)])


def unconverged(rows: pd.DataFrame, score: str) -> "pd.Series[bool]":
    """Say of each result whether a score of it rests on an attack that had not converged.

    Args:
        rows: runs or attacks as `collect` returns them, worst cases, or several of these.
        score: name of a score. The worst case's identification may be of another attack than its
            other scores (see `worst_case`).

    Returns:
        For each row whether it does; not where nothing is known, as of closed forms and of failed
        results.
    """
    if score in RUN_SCORES:
        return pd.Series(data=False, index=rows.index)
    quoted = rows["converged"]
    if score == IDENTIFICATION and RECOGNISER in rows:
        quoted = rows[RECOGNISER].where(rows["strongest"].notna(), quoted)
    return quoted.eq(False)


def _strongest(group: list[Row], expected: set[str]) -> Row:
    finished = [row for row in group if row["status"] == "ok"]
    unknown = expected - {row["attack"] for row in finished}
    if unknown:
        row = {key: group[0][key] for key in ("experiment", "defence", "seed", "knowledge")}
        reason = f"no result of {', '.join(sorted(unknown))}"
        return row | {"status": "failed", "reason": reason, "strongest": ""}
    return strongest(finished)


def strongest(attacks: Sequence[Row]) -> Row:
    """Return the worst case over finished attacks on one run: see `worst_case`.

    Args:
        attacks: ``attack``, ``mse``, ``recon_top1`` (NaN where it was not measured), ``converged``
            and any other score of each.
    """
    best = min(attacks, key=lambda row: float(row["mse"]))
    measured = [row for row in attacks if not math.isnan(row["recon_top1"])]
    recogniser = max(measured, key=lambda row: float(row["recon_top1"]), default=best)
    return {
        **best,
        "recon_top1": recogniser["recon_top1"],
        "strongest": best["attack"],
        RECOGNISER: recogniser["converged"],
    }
