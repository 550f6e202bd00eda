"""Read the metrics files of a study into two tables: one row per run, one row per attack."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cemlib.records.files import FileError
from cemlib.records.layout import AttackFolder
from cemlib.records.scores import UNBOUNDED, impossible
from cemlib.records.seal import check_files, read_sealed

# Columns of the records, in groups.
JOB = ("experiment", "defence", "seed", "status", "reason", "wall_seconds", "peak_memory_mb")
LEAKAGE = ("leakage_nats", "leakage_images")
EPOCHS = ("selected_epoch", "epochs")
CODE = ("fingerprint", "commit")
ERRORS = ("mse", "psnr", "psnr_of_mean_mse", "ssim", "ssim_valid")
RECOGNITION = ("recon_top1", "recon_top1_victim", "judge_top1")
ATTACK = ("queries", "late_improvement", "converged", "n_images")
_OF_RUNS = (*JOB, "top1", "val_top1", "chance_top1", *LEAKAGE, *EPOCHS)
_OF_ATTACKS = (*JOB, "attack", "knowledge", *ERRORS, *RECOGNITION, *ATTACK)
RUN_COLUMNS = (*_OF_RUNS, *CODE, "folder")
ATTACK_COLUMNS = (*_OF_ATTACKS, "folder")
_NEEDED = ("top1", "mse", "ssim")  # there unless the job failed
_SCORES = {*_NEEDED, *RECOGNITION, *UNBOUNDED}


def collect(
    run_metrics: Sequence[Path], attack_metrics: Sequence[Path] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the ``metrics.json`` of every run, and of every attack on them if there is any.

    `cemlib.study.finished` checks beforehand that they belong together, and to the study.

    Returns:
        ``runs`` with `RUN_COLUMNS` and ``attacks`` with `ATTACK_COLUMNS`, in the order given;
        ``folder`` is the folder of the file. Scores of failed jobs are NaN. An unbounded leakage or
        PSNR is ``inf``.

    Raises:
        FileError: naming the file that is missing or damaged, or lacks a key or a score.
    """
    runs = [_row(path, "run", _OF_RUNS) for path in run_metrics]
    attacks = [_row(path, "attack", _OF_ATTACKS) for path in attack_metrics]
    columns = list(RUN_COLUMNS), list(ATTACK_COLUMNS)
    return pd.DataFrame(runs, columns=columns[0]), pd.DataFrame(attacks, columns=columns[1])


def _row(path: Path, kind: str, keys: Sequence[str]) -> dict[str, Any]:
    found = read_sealed(path, ("kind", *keys, "provenance"))
    if found["kind"] != kind:
        raise _bad(path, f"this is not the metrics file of a result of kind {kind!r}")
    folder = AttackFolder(path.parent)
    check_files(path, found, [folder.history, folder.per_image, folder.reconstructions])
    for fault in impossible(found):
        raise _bad(path, fault)
    row = {key: found[key] for key in keys}
    if row["status"] == "failed":
        row |= dict.fromkeys(row.keys() & _SCORES, math.nan)
    for key in (key for key, value in row.items() if value is None and key != "converged"):
        if key in _NEEDED:
            raise _bad(path, f"{key} is missing although the status is 'ok'")
        row[key] = math.inf if key in UNBOUNDED else math.nan  # JSON has no infinity
    row |= {key: found["provenance"][key] for key in CODE} | {"reason": found["reason"] or ""}
    return row | {"folder": str(path.parent)}


def _bad(path: Path, problem: str) -> FileError:
    return FileError(f"{path}: {problem}; delete it and rerun the job that writes it")
