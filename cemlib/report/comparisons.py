"""Compare every defence with a reference, paired over the seeds that both have.

One score is tested, the MSE of the worst case, corrected over all defences and kinds of knowledge.
Accuracy, SSIM and identification have intervals only. PSNR is left out, since it follows from MSE.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cemlib.records.files import FileError
from cemlib.records.layout import AttackFolder
from cemlib.records.scores import IDENTIFICATION, TESTED
from cemlib.report.statistics import LEVEL, holm, paired_difference, two_level_interval
from cemlib.report.tables import at_chance, present
from cemlib.report.worst_case import unconverged, worst_case

NOT_SHOWN, UNCONVERGED, AT_CHANCE = "no difference shown", "unconverged", "at chance"
_WITH_IMAGES = (TESTED, "ssim")  # scores that every image has
_COLUMNS = (
    *("defence", "reference", "knowledge", "metric", "n_pairs", "n_images", "difference"),
    *("ci_low", "ci_high", "boot_low", "boot_high", "p", "p_holm", "unconverged", "verdict"),
)


def comparisons_table(
    runs: pd.DataFrame, attacks: pd.DataFrame, defences: Sequence[str], reference: str | None
) -> pd.DataFrame:
    """Return paired differences of every defence from a reference (None: `default_reference`).

    The scores are top-1, and for each knowledge the worst case's MSE, SSIM and identification on
    one release, each in the order of ``defences``.

    Returns:
        ``difference`` is defence minus reference with its 95 % interval over the seeds; scores of
        attacks are means over ``n_images`` images. `with_image_intervals` fills in ``boot_low`` and
        ``boot_high``, `with_verdicts` ``p_holm`` and ``verdict``. ``unconverged`` names the sides
        that rest, on a seed of the pairs, on an attack that had not converged.

    Raises:
        ValueError: if the reference has no result.
    """
    names = present(runs, defences)
    reference = reference or default_reference(names)
    if reference not in names:
        raise ValueError(f"reference {reference!r} has no results; there are {', '.join(names)}")
    others = [name for name in names if name != reference]
    families: list[tuple[Any, str, pd.DataFrame]] = [("", "top1", runs)]
    chance = runs[["defence", "seed"]].assign(at_chance=at_chance(runs))
    strongest = worst_case(attacks).merge(chance, on=["defence", "seed"], how="left")
    for knowledge, found in strongest.groupby("knowledge", sort=False):
        families += [(knowledge, score, found) for score in (*_WITH_IMAGES, IDENTIFICATION)]
    rows = [
        {"defence": name, "reference": reference, "knowledge": knowledge, "metric": score}
        | _paired(frame, score, name, reference)
        for knowledge, score, frame in families
        for name in others
    ]
    columns = [*_COLUMNS, "at_chance"]
    table = pd.DataFrame(rows, columns=columns).astype({"n_images": "Int64", "at_chance": bool})
    tested = table["metric"] == TESTED
    table.loc[~tested, "p"] = math.nan
    return with_verdicts(table, tested)


def default_reference(defences: Sequence[str]) -> str:
    """Return ``noise`` if it is one of the defences, else the first."""
    return "noise" if "noise" in defences else defences[0]


def with_image_intervals(table: pd.DataFrame, attacks: pd.DataFrame) -> pd.DataFrame:
    """Return the table with ``boot_low`` and ``boot_high``: intervals over seeds and images.

    Rows of MSE and SSIM have them, from the scores of each image under the strongest attack on its
    run (see `two_level_interval`); others have NaN.

    Raises:
        FileError: if the scores of an attack's images are missing, or if two attacks scored
            different images.
    """
    filled = table.copy()
    for knowledge, found in worst_case(attacks).groupby("knowledge", sort=False):
        runs = _scores_by_run(found)
        rows = table[(table["knowledge"] == knowledge) & table["metric"].isin(_WITH_IMAGES)]
        for row, ours, theirs, score in rows[["defence", "reference", "metric"]].itertuples():
            seeds = [seed for name, seed in runs if name == ours and (theirs, seed) in runs]
            if seeds:
                pairs = [runs[ours, seed][score] - runs[theirs, seed][score] for seed in seeds]
                filled.loc[row, ["boot_low", "boot_high"]] = two_level_interval(np.stack(pairs))
    return filled


def with_verdicts(table: pd.DataFrame, tested: "pd.Series[bool]") -> pd.DataFrame:
    """Return a table of differences with ``p_holm``, corrected over all rows, and ``verdict``.

    A tested row that rests on an unconverged attack, or (by the column ``at_chance``, which is
    dropped) on a classifier at chance, has that as its verdict. It still counts in Holm's
    correction: otherwise an attack that was stopped early would make the other p values smaller.
    """
    corrected = pd.Series(holm(table["p"].tolist()), table.index)
    difference, shown = table["difference"], corrected < 1 - LEVEL
    words = {
        UNCONVERGED: tested & (table["unconverged"] != ""),
        AT_CHANCE: tested & table["at_chance"] & corrected.notna(),
        "": corrected.isna(),
        "higher": shown & (difference > 0),
        "lower": shown & (difference < 0),
    }
    verdict = np.select([*words.values()], [*words], NOT_SHOWN)
    return table.drop(columns="at_chance").assign(p_holm=corrected, verdict=verdict)


def _paired(frame: pd.DataFrame, score: str, defence: str, reference: str) -> dict[str, Any]:
    finished = frame[frame["status"] == "ok"].set_index("seed")
    sides = [finished[finished["defence"] == name] for name in (defence, reference)]
    seeds = sides[0].index.intersection(sides[1].index)
    ours, theirs = (side.loc[seeds] for side in sides)
    found = paired_difference(ours[score].tolist(), theirs[score].tolist())
    named = zip((defence, reference), (ours, theirs), strict=True)
    flagged = [name for name, side in named if unconverged(side, score).any()]
    images = ours["n_images"].min() if "n_images" in ours else math.nan
    chance = any("at_chance" in side and side["at_chance"].any() for side in (ours, theirs))
    told = {"unconverged": ", ".join(flagged), "at_chance": chance}
    return found | {"n_images": images} | told


def _scores_by_run(results: pd.DataFrame) -> dict[tuple[str, int], pd.DataFrame]:
    """Return the scores of the images by defence and seed of the finished results."""
    read: dict[tuple[str, int], pd.DataFrame] = {}
    for row in results[results["status"] == "ok"].to_dict("records"):
        path = AttackFolder(Path(row["folder"])).per_image
        try:
            scores = pd.read_parquet(path)[["index", *_WITH_IMAGES]].astype(np.float64)
        except OSError as error:
            raise FileError(f"{path}: cannot be read ({error}); rerun the attack") from error
        first = next(iter(read.values()), scores)
        if not scores["index"].equals(first["index"]):
            raise FileError(f"{path}: scores other images than others do; run the study again")
        read[row["defence"], row["seed"]] = scores
    return read
