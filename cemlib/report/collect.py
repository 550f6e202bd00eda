"""Read the metrics files of a study into two tables: one row per run, one row per attack."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cemlib.records.files import FileError
from cemlib.records.layout import AttackFolder
from cemlib.records.scores import UNBOUNDED, impossible
from cemlib.records.seal import FILES, check_files, read_sealed

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
_RUN_KEY = ["defence", "seed"]
_ATTACK_KEY = [*_RUN_KEY, "attack", "knowledge"]
_NEEDED = ("top1", "mse", "ssim")  # there unless the job failed
_SCORES = {*_NEEDED, *RECOGNITION, *UNBOUNDED}
_WEIGHTS = "weights_sha256"  # of the model that a run left or an attack attacked


def collect(
    run_metrics: Sequence[Path], attack_metrics: Sequence[Path] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the ``metrics.json`` of every run, and of every attack on them if there is any.

    Returns:
        ``runs`` with `RUN_COLUMNS` and ``attacks`` with `ATTACK_COLUMNS`, in the order given;
        ``folder`` is the folder of the file. Scores of failed jobs are NaN. An unbounded leakage or
        PSNR is ``inf``. A failed run that left no attack files appears as failed attacks.

    Raises:
        FileError: naming the file that is missing or damaged, lacks a key or a score, is given
            twice, belongs to another experiment, attacks a run that is not listed, or saw a
            different number of releases from the same attack elsewhere; or if there is no run.
    """
    if not run_metrics:
        raise FileError("no metrics file of a run was given: nothing to report")
    runs, attacks = _frame(run_metrics, "run", _OF_RUNS), pd.DataFrame(columns=list(ATTACK_COLUMNS))
    if attack_metrics:
        attacks = _frame(attack_metrics, "attack", _OF_ATTACKS)
        _check_attacks(attacks, runs)
        attacks = pd.concat([attacks, _attacks_on_failed_runs(runs, attacks)], ignore_index=True)
    return runs[list(RUN_COLUMNS)], attacks[list(ATTACK_COLUMNS)]


def _frame(paths: Sequence[Path], kind: str, keys: Sequence[str]) -> pd.DataFrame:
    frame = pd.DataFrame([_row(path, kind, keys) for path in paths])
    key = _RUN_KEY if kind == "run" else _ATTACK_KEY
    others = frame["experiment"] != frame["experiment"].iloc[0]
    _refuse(frame[others], "result of another experiment; report one experiment at a time")
    _refuse(frame[frame.duplicated(key)], f"another result of the same {kind} is given as well")
    return frame


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
    weights = found[FILES].get("model.safetensors", found.get("model_sha256"))
    return row | {"folder": str(path.parent), _WEIGHTS: weights}


def _check_attacks(attacks: pd.DataFrame, runs: pd.DataFrame) -> None:
    """Refuse attacks that do not belong together, or not to the runs."""
    attacks["expected"] = attacks.groupby("attack")["queries"].transform("first")
    _refuse(
        attacks[attacks["queries"] != attacks["expected"]],
        "{attack} saw {queries} release(s), but {expected} elsewhere; rerun the older one",
    )
    key = ["experiment", *_RUN_KEY]
    victims = attacks.merge(runs, on=key, how="left", suffixes=("", "_run"))
    scored, of_run = victims["status"] == "ok", victims["status_run"]
    weights = victims[[_WEIGHTS, f"{_WEIGHTS}_run"]].dropna()
    others = weights.index[weights.nunique(axis=1) > 1]
    _refuse(victims[of_run.isna()], "the metrics of the run that it attacks are absent")
    lost = scored & (of_run == "failed")
    _refuse(victims[lost], "scored, but its run failed since; rerun the attack")
    _refuse(victims.loc[others], "attacked other weights than its run has; rerun it")


def _refuse(rows: pd.DataFrame, problem: str) -> None:
    """Raise an error for the first of some rows; the problem may name columns in braces."""
    for row in rows.to_dict("records"):
        raise FileError(f"{row['folder']}: {problem.format_map(row)}")


def _attacks_on_failed_runs(runs: pd.DataFrame, attacks: pd.DataFrame) -> pd.DataFrame:
    """Return a failed row for each attack of the study that a failed run never got."""
    kinds = attacks[["attack", "knowledge", "queries"]].drop_duplicates()
    kept = ["experiment", *_RUN_KEY, "status", "reason", "folder"]
    every = runs.loc[runs["status"] == "failed", kept].merge(kinds, how="cross")
    there = every.merge(attacks[_ATTACK_KEY], how="left", indicator=True)["_merge"] == "both"
    return every[~there]


def _bad(path: Path, problem: str) -> FileError:
    return FileError(f"{path}: {problem}; delete it and rerun the job that writes it")
