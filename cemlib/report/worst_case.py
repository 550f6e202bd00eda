"""The strongest attack on each run: a defence is only as private as its worst case.

The worst case is over the attacks that see one release of each image. An attacker who may query n
times sees n releases and can average their noise away, so the worst case on n releases is over the
attacks that see at most n of them.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pandas as pd

from cemlib.records.scores import IDENTIFICATION, RUN_SCORES

WORST_CASE = "worst_case"
CEILING = "mean_image"  # the attack that does not use the release
RECOGNISER = "recogniser_converged"  # of the attack that ``recon_top1`` is quoted from

Row = dict[str, Any]


def worst_case_name(queries: int) -> str:
    """Return ``worst_case`` for one release, ``worst_case_16`` for 16."""
    return WORST_CASE if queries == 1 else f"{WORST_CASE}_{queries}"


def release_counts(attacks: pd.DataFrame) -> list[int]:
    """Return the numbers of releases that have a worst case: one, and each larger one."""
    return sorted({1, *map(int, attacks["queries"])})


def worst_case(attacks: pd.DataFrame, queries: int = 1) -> pd.DataFrame:
    """Return for each defence, seed and knowledge the result of the attack with the lowest MSE.

    Only ``recon_top1`` is the highest that any attack reaches: an attack with a larger error may be
    the one whose pictures are recognised. Every attack that sees at most ``queries`` releases takes
    part, the mean image too. If one failed or is absent, the strongest is unknown and the worst
    case counts as failed: otherwise an attack that diverged would make the defence look private.

    Returns:
        Rows with the columns of ``attacks`` and ``strongest``, the name of the attack (empty where
        it is not known). ``converged`` is that attack's, and `RECOGNISER` that of the attack with
        the highest ``recon_top1``. Either is False if its attack has no learning curve and a
        learned attack on the run had not converged: trained longer, that one may beat it.
    """
    allowed = attacks[attacks["queries"] <= queries]
    expected = allowed.groupby("knowledge")["attack"].agg(set).to_dict()
    found: list[Any] = allowed.to_dict("records")  # of all at once: each call takes milliseconds
    groups: defaultdict[tuple[str, int, str], list[Row]] = defaultdict(list)
    for row in found:
        groups[row["defence"], row["seed"], row["knowledge"]].append(row)
    rows = []
    for (_, _, knowledge), group in groups.items():
        finished = [row for row in group if row["status"] == "ok"]
        unknown = expected[knowledge] - {row["attack"] for row in finished}
        rows.append(_unknown(group[0], unknown) if unknown else strongest(finished))
    table = pd.DataFrame(rows, columns=[*attacks.columns, "strongest", RECOGNISER])
    return table.assign(attack=worst_case_name(queries), queries=queries)


def worst_cases(attacks: pd.DataFrame) -> pd.DataFrame:
    """Return the worst case on each number of releases of `release_counts`, one after the other."""
    return pd.concat([worst_case(attacks, queries) for queries in release_counts(attacks)])


def unconverged(rows: pd.DataFrame, score: str) -> "pd.Series[bool]":
    """Return for each row whether a score rests on an attack that had not converged.

    It is False where nothing is known, as for runs, closed forms and failed results. The worst
    case's identification may be of another attack than its other scores (see `worst_case`).
    """
    if score in RUN_SCORES:
        return pd.Series(data=False, index=rows.index)
    quoted = rows["converged"]
    if score == IDENTIFICATION and RECOGNISER in rows:
        quoted = rows[RECOGNISER].where(rows["strongest"].notna(), quoted)
    return quoted.eq(False)


def _unknown(attack: Row, missing: set[str]) -> Row:
    """Return the failed worst case of the run that an attack is on; some attacks are missing."""
    reason = f"no result of {', '.join(sorted(missing))}"
    names = {key: attack[key] for key in ("experiment", "defence", "seed", "knowledge")}
    return names | {"status": "failed", "reason": reason, "strongest": ""}


def strongest(attacks: Sequence[Row]) -> Row:
    """Return the worst case over finished attacks on one run (see `worst_case`).

    Each has ``attack``, ``mse``, ``recon_top1`` and ``converged``.
    """
    best = min(attacks, key=lambda row: float(row["mse"]))
    recogniser = max(attacks, key=lambda row: float(row["recon_top1"]))
    is_early = any(row["converged"] is False for row in attacks)

    def converged(quoted: Row) -> bool | None:
        is_learned = quoted["converged"] in (True, False)
        return quoted["converged"] if is_learned or not is_early else False

    return {
        **best,
        "converged": converged(best),
        "recon_top1": recogniser["recon_top1"],
        "strongest": best["attack"],
        RECOGNISER: converged(recogniser),
    }
