"""Paired comparisons of every defence with a reference, over the seeds that both have."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cemlib.report.bootstrap import two_level_intervals
from cemlib.report.image_scores import image_differences, scores_by_run
from cemlib.report.statistics import difference_columns, holm, paired_difference
from cemlib.report.tables import present
from cemlib.report.verdicts import unconverged, verdicts
from cemlib.report.worst_case import worst_case
from cemlib.scores import ATTACK_SCORES, IDENTIFICATION

_COLUMNS = (
    "defence",
    "reference",
    "knowledge",
    "metric",
    "n_pairs",
    "difference",
    "ci_low",
    "ci_high",
    "boot_low",
    "boot_high",
    "d_z",
    "g_z",
    "p",
    "p_permutation",
    "p_holm",
    "p_holm_study",
    "unconverged",
    "verdict",
)


def comparisons_table(
    runs: pd.DataFrame, attacks: pd.DataFrame, defences: Sequence[str], reference: str | None
) -> pd.DataFrame:
    """Paired differences of every defence to a reference, over the seeds that both have.

    Worst-case MSE, SSIM, PSNR and identification (where it was measured) on one release, per
    knowledge, and top-1.

    Args:
        runs: as `collect` returns them.
        attacks: likewise.
        defences: order of the rows.
        reference: the defence to compare with; by default ``noise`` if it is there, else the first.

    Returns:
        ``difference`` is defence minus reference with its 95 % interval over the seeds, effect
        sizes and p as in `Difference`; ``boot_low`` and ``boot_high`` are left to
        `with_image_intervals`. ``p_holm`` is p corrected over the defences, for each score
        and knowledge by itself, ``p_holm_study`` over all rows. ``unconverged`` names the sides
        whose score rests, on a seed of the pairs, on an attack that had not converged; ``verdict``
        is as of `verdicts`. A row without verdict stays among those that Holm's method corrects
        for: were it left out, an attack that was stopped early would make the others' p smaller.

    Raises:
        ValueError: if the reference has no result.
    """
    names = present(runs, defences)
    reference = _reference(names, reference)
    others = [name for name in names if name != reference]
    rows = [
        {"defence": name, "reference": reference, "knowledge": knowledge, "metric": score}
        | _paired(frame, score, name, reference)
        for knowledge, score, frame in _families(runs, worst_case(attacks))
        for name in others
    ]
    return _judged(pd.DataFrame(rows, columns=list(_COLUMNS)))


def with_image_intervals(table: pd.DataFrame, attacks: pd.DataFrame) -> pd.DataFrame:
    """The table with ``boot_low`` and ``boot_high``: 95 % intervals over seeds and images.

    Of MSE, SSIM and PSNR, each image's under the attack that is strongest on its run; NaN
    elsewhere. See `two_level_intervals`.

    Args:
        table: of `comparisons_table`.
        attacks: those that it was made from.

    Raises:
        FileError: as `scores_by_run`.
    """
    filled, strongest = table.copy(), worst_case(attacks)
    for knowledge in strongest["knowledge"].unique():
        runs = scores_by_run(strongest[strongest["knowledge"] == knowledge])
        rows = table[(table["knowledge"] == knowledge) & table["metric"].isin(ATTACK_SCORES)]
        keys = rows[["defence", "reference", "metric"]].itertuples(index=True, name=None)
        found = {row: image_differences(runs, *names) for row, *names in keys}
        paired = {row: each for row, each in found.items() if each is not None}
        ends = two_level_intervals([*paired.values()])
        filled.loc[[*paired], ["boot_low", "boot_high"]] = np.array(ends).reshape(-1, 2)
    return filled


def _reference(names: Sequence[str], wanted: str | None) -> str:
    reference = wanted or ("noise" if "noise" in names else names[0])
    if reference not in names:
        raise ValueError(f"reference {reference!r} has no results; there are {', '.join(names)}")
    return reference


def _families(
    runs: pd.DataFrame, strongest: pd.DataFrame
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Knowledge, score, and the results that have it."""
    identified = strongest[IDENTIFICATION].notna().any()
    scores = (*ATTACK_SCORES, IDENTIFICATION) if identified else ATTACK_SCORES
    yield "", "top1", runs
    for knowledge in strongest["knowledge"].unique():
        for score in scores:
            yield knowledge, score, strongest[strongest["knowledge"] == knowledge]


def _paired(frame: pd.DataFrame, score: str, defence: str, reference: str) -> dict[str, Any]:
    finished = frame[frame["status"] == "ok"].set_index("seed")
    sides = [finished[finished["defence"] == name] for name in (defence, reference)]
    seeds = sides[0].index.intersection(sides[1].index)
    ours, theirs = (side.loc[seeds] for side in sides)
    found = paired_difference(ours[score].tolist(), theirs[score].tolist())
    named = zip((defence, reference), (ours, theirs), strict=True)
    flagged = [name for name, side in named if unconverged(side, score).any()]
    unknown = {"boot_low": math.nan, "boot_high": math.nan, "unconverged": ", ".join(flagged)}
    return difference_columns(found) | {"d_z": found.d_z} | unknown


def _judged(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with Holm's corrections and the verdict."""
    for _, family in table.groupby(["metric", "knowledge"], sort=False):
        table.loc[family.index, "p_holm"] = holm(family["p"].tolist())
    table["p_holm_study"] = holm(table["p"].tolist())
    barred = table["unconverged"] != ""
    table["verdict"] = verdicts(table["difference"], table["p_holm_study"], barred)
    return table
