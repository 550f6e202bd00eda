"""Reading the metrics files of a study into two tables: one row per run, one row per attack."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cemlib.records.files import FileError, read_json
from cemlib.records.scores import impossible
from cemlib.records.seal import FILES, check_files, check_record
from cemlib.report.consistency import (
    WEIGHTS,
    Row,
    check_attacked_runs,
    check_experiment,
    check_queries,
    check_unique,
)

Reader = Callable[[Path, Row, str], Any]

RUN_COLUMNS = (
    "experiment",
    "defence",
    "seed",
    "status",
    "reason",
    "top1",
    "val_top1",
    "leakage_nats",
    "leakage_images",
    "selected_epoch",
    "epochs",
    "fingerprint",
    "commit",
    "wall_seconds",
    "peak_memory_mb",
    "folder",
)
VERDICT_COLUMNS = (
    "recon_top1",
    "recon_top1_victim",
    "judge_top1",
    "queries",
    "late_improvement",
    "converged",
)
ATTACK_COLUMNS = (
    "experiment",
    "defence",
    "seed",
    "attack",
    "knowledge",
    "status",
    "reason",
    "mse",
    "psnr",
    "psnr_of_mean_mse",
    "ssim",
    "ssim_valid",
    *VERDICT_COLUMNS,
    "n_images",
    "wall_seconds",
    "peak_memory_mb",
    "folder",
)


def collect(
    run_metrics: Sequence[Path], attack_metrics: Sequence[Path]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the ``metrics.json`` of every run and of every attack on them.

    Args:
        run_metrics: the files of the runs.
        attack_metrics: the files of the attacks.

    Returns:
        ``runs`` with `RUN_COLUMNS` and ``attacks`` with `ATTACK_COLUMNS`, in the order given;
        ``folder`` is the folder of the file. Scores of failed jobs are NaN. An unbounded leakage or
        PSNR is ``inf``. A failed run that left no attack files appears as failed attacks.

    Raises:
        FileError: naming the file that is missing, broken, lacks a key, holds a wrong value, stands
            twice in the lists, belongs to another experiment, attacks a run that is not listed, or
            saw other numbers of releases than the same attack elsewhere; or if a list is empty.
    """
    if not attack_metrics:
        raise FileError("no metrics file of an attack was given: nothing to report")
    runs = _runs(run_metrics)
    attacks = [_row(path, "attack", ATTACK_COLUMNS) for path in attack_metrics]
    check_unique(attacks, ("defence", "seed", "attack", "knowledge"))
    check_experiment([*runs, *attacks])
    check_queries(attacks)
    check_attacked_runs(runs, attacks)
    attacks += _attacks_without_a_victim(runs, attacks)
    return (
        pd.DataFrame(runs, columns=list(RUN_COLUMNS)),
        pd.DataFrame(attacks, columns=list(ATTACK_COLUMNS)),
    )


def collect_runs(run_metrics: Sequence[Path]) -> pd.DataFrame:
    """Read the ``metrics.json`` of every run (see `collect`)."""
    return pd.DataFrame(_runs(run_metrics), columns=list(RUN_COLUMNS))


def _runs(run_metrics: Sequence[Path]) -> list[Row]:
    if not run_metrics:
        raise FileError("no metrics file of a run was given: nothing to report")
    rows = [_row(path, "run", RUN_COLUMNS) for path in run_metrics]
    check_unique(rows, ("defence", "seed"))
    check_experiment(rows)
    return rows


def _key(path: Path, found: Any, key: str) -> Any:
    if not isinstance(found, dict) or key not in found:
        raise _bad(path, f"no key {key!r}")
    return found[key]


def _checked(valid: Callable[[Any], bool], what: str) -> Reader:
    """Make a reader of values that must be valid; `what` says what others are not."""

    def read(path: Path, found: Row, key: str) -> Any:
        value = _key(path, found, key)
        if not valid(value):
            raise _bad(path, f"{key} is {value!r}, {what}")
        return value

    return read


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_text = _checked(lambda value: isinstance(value, str) and value != "", "not a name")
_seed = _checked(_is_whole, "not a whole number")
_status = _checked(lambda value: value in ("ok", "failed"), "neither 'ok' nor 'failed'")
_queries = _checked(
    lambda value: _is_whole(value) and value > 0, "not a whole number of at least 1"
)
_converged = _checked(
    lambda value: isinstance(value, bool | None), "neither true nor false nor null"
)


def _reason(path: Path, found: Row, key: str) -> str:
    value = _key(path, found, key)
    return "" if value is None else str(value)


def _number(path: Path, found: Row, key: str) -> float:
    value = _key(path, found, key)
    if value is None:
        return math.nan
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _bad(path, f"{key} is {value!r}, not a number")
    return value


def _score(path: Path, found: Row, key: str) -> float:
    """Read a score, which is there unless the job failed."""
    score = _number(path, found, key)
    if _status(path, found, "status") == "failed":
        return math.nan
    if math.isnan(score):
        raise _bad(path, f"{key} is missing although the status is 'ok'")
    return score


def _bound(path: Path, found: Row, key: str) -> float:
    """Read a score that may be infinite: null, since JSON has no such number, of a finished job."""
    score = _number(path, found, key)
    if _status(path, found, "status") == "failed":
        return math.nan
    return math.inf if math.isnan(score) else score


def _measured(path: Path, found: Row, key: str) -> float:
    """Return a number that may be null, and is none of a failed job."""
    number = _number(path, found, key)
    return math.nan if _status(path, found, "status") == "failed" else number


def _provenance(path: Path, found: Row, key: str) -> str:
    return str(_key(path, _key(path, found, "provenance"), key))


def _folder(path: Path, _: Row, __: str) -> str:
    return str(path.parent)


# Of a result's other files, those that tables and figures are made from.
_READ_BESIDE = ("history.jsonl", "per_image.parquet", "reconstructions.png")

# How each column is read; every other one is a number that may be null.
_READERS: dict[str, Reader] = {
    **dict.fromkeys(("experiment", "defence", "attack", "knowledge"), _text),
    **dict.fromkeys(("top1", "mse", "ssim"), _score),
    **dict.fromkeys(("leakage_nats", "psnr", "psnr_of_mean_mse"), _bound),
    **dict.fromkeys(("fingerprint", "commit"), _provenance),
    **dict.fromkeys(("recon_top1", "recon_top1_victim", "judge_top1"), _measured),
    "queries": _queries,
    "converged": _converged,
    "seed": _seed,
    "status": _status,
    "reason": _reason,
    "folder": _folder,
}


def _row(path: Path, kind: str, columns: Sequence[str]) -> Row:
    found = read_json(path)
    if not isinstance(found, dict) or found.get("kind") != kind:
        raise _bad(path, f"this is not the metrics file of a result of kind {kind!r}")
    check_record(path, found)
    check_files(path, found, map(path.with_name, _READ_BESIDE))
    for fault in impossible(found):
        raise _bad(path, fault)
    row = {column: _READERS.get(column, _number)(path, found, column) for column in columns}
    return row | {WEIGHTS: _weights(found)}


def _weights(found: Row) -> str | None:
    """Return the checksum of the weights that a run left or an attack attacked."""
    weights: str | None = found[FILES].get("model.safetensors", found.get("model_sha256"))
    return weights


def _attacks_without_a_victim(runs: Sequence[Row], attacks: Sequence[Row]) -> list[Row]:
    """Return failed rows for each attack of the study that a failed run never got."""
    kinds = dict.fromkeys((row["attack"], row["knowledge"], row["queries"]) for row in attacks)
    there = {(row["defence"], row["seed"], row["attack"], row["knowledge"]) for row in attacks}
    return [
        {
            **{key: run[key] for key in ("experiment", "defence", "seed", "status", "reason")},
            "attack": attack,
            "knowledge": knowledge,
            "queries": queries,
            "folder": run["folder"],
        }
        for run in runs
        for attack, knowledge, queries in kinds
        if run["status"] == "failed"
        and (run["defence"], run["seed"], attack, knowledge) not in there
    ]


def _bad(path: Path, problem: str) -> FileError:
    return FileError(f"{path}: {problem}; delete it and rerun the job that writes it")
