"""Results in memory as the table of a study."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from cemlib.evaluation.verdict import Attacked
from cemlib.report.collect import ATTACK_COLUMNS, RUN_COLUMNS
from cemlib.report.tables import summary_table
from cemlib.training.fit import Trained


def table(trained: Sequence[Trained], attacked: Sequence[Attacked]) -> pd.DataFrame:
    """Return means over seeds with 95 % intervals, as in a study's `summary.csv`.

    Args:
        trained: The classifiers, in the order of the rows.
        attacked: All attacks on them.

    Returns:
        One row per defence, attack and knowledge, and `worst_case` rows, with the columns of
        `cemlib.report.tables.summary_table`: `<score>_mean`, `<score>_ci_low`, `<score>_ci_high`
        of top1, leakage_nats, mse, ssim, psnr and recon_top1. Intervals need two seeds or more.

    Raises:
        ValueError: an attack's defence is not among the classifiers.
    """
    runs = pd.DataFrame([_run(each) for each in trained], columns=list(RUN_COLUMNS))
    attacks = pd.DataFrame([_attack(each) for each in attacked], columns=list(ATTACK_COLUMNS))
    return summary_table(runs, attacks, list(dict.fromkeys(runs["defence"])))


def _run(trained: Trained) -> dict[str, Any]:
    names = {"defence": trained.defence, "seed": trained.seed, "status": "ok", "reason": ""}
    return names | {"selected_epoch": trained.epoch, **trained.scores}


def _attack(attacked: Attacked) -> dict[str, Any]:
    names = ("defence", "seed", "attack", "knowledge", "queries")
    row = {name: getattr(attacked, name) for name in names}
    if attacked.reason is not None:
        return row | {"status": "failed", "reason": attacked.reason}
    row |= {"status": "ok", "reason": "", "n_images": len(attacked.originals)} | attacked.scores
    for unbounded in ("psnr", "psnr_of_mean_mse"):  # None where there is no error at all
        row[unbounded] = math.inf if row[unbounded] is None else row[unbounded]
    return row
