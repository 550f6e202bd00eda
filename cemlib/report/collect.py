"""Reading the metrics files of a study into two tables: one row per run, one row per attack."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cemlib.records.files import FileError, read_json
from cemlib.records.scores import UNBOUNDED, impossible
from cemlib.records.seal import FILES, check_files, check_record

Row = dict[str, Any]
WEIGHTS = "weights_sha256"  # in a row, but no column: of the weights that were left or attacked
Text = Annotated[str, Field(min_length=1)]


class _Record(BaseModel):
    """Check what tables show of every ``metrics.json``; a number may be null."""

    model_config = ConfigDict(strict=True)

    experiment: Text
    defence: Text
    seed: int
    status: Literal["ok", "failed"]
    reason: str | None
    wall_seconds: float | None
    peak_memory_mb: float | None


class _Provenance(BaseModel):
    fingerprint: str
    commit: str


class _Run(_Record):
    top1: float | None
    val_top1: float | None
    leakage_nats: float | None
    leakage_images: float | None
    chance_top1: float | None
    selected_epoch: float | None
    epochs: float | None
    provenance: _Provenance


class _Attack(_Record):
    attack: Text
    knowledge: Text
    mse: float | None
    psnr: float | None
    psnr_of_mean_mse: float | None
    ssim: float | None
    ssim_valid: float | None
    recon_top1: float | None
    recon_top1_victim: float | None
    judge_top1: float | None
    queries: Annotated[int, Field(ge=1)]
    late_improvement: float | None
    converged: bool | None
    n_images: float | None


_NEEDED = ("top1", "mse", "ssim")  # there unless the job failed
_MEASURED = ("recon_top1", "recon_top1_victim", "judge_top1")
RUN_COLUMNS = (
    *(name for name in _Run.model_fields if name != "provenance"),
    *_Provenance.model_fields,
    "folder",
)
ATTACK_COLUMNS = (*_Attack.model_fields, "folder")
# Of a result's other files, those that tables and figures are made from.
_READ_BESIDE = ("history.jsonl", "per_image.parquet", "reconstructions.png")


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
    attacks = [_row(path, "attack", _Attack) for path in attack_metrics]
    _check_unique(attacks, ("defence", "seed", "attack", "knowledge"))
    _check_experiment([*runs, *attacks])
    _check_queries(attacks)
    _check_attacked_runs(runs, attacks)
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
    rows = [_row(path, "run", _Run) for path in run_metrics]
    _check_unique(rows, ("defence", "seed"))
    _check_experiment(rows)
    return rows


def _row(path: Path, kind: str, record: type[_Record]) -> Row:
    found = read_json(path)
    if not isinstance(found, dict) or found.get("kind") != kind:
        raise _bad(path, f"this is not the metrics file of a result of kind {kind!r}")
    check_record(path, found)
    check_files(path, found, map(path.with_name, _READ_BESIDE))
    for fault in impossible(found):
        raise _bad(path, fault)
    try:
        row = record.model_validate(found).model_dump()
    except ValidationError as error:
        raise _bad(path, _fault(error)) from error
    row |= row.pop("provenance", {})
    for key in (name for name in (*_NEEDED, *_MEASURED, *UNBOUNDED) if name in row):
        if row["status"] == "failed":
            row[key] = math.nan
        elif row[key] is None and key in UNBOUNDED:
            row[key] = math.inf  # JSON has no such number
        elif row[key] is None and key in _NEEDED:
            raise _bad(path, f"{key} is missing although the status is 'ok'")
    unknown = {key: math.nan for key, value in row.items() if value is None and key != "converged"}
    reason = {"reason": row["reason"] or ""}
    return row | unknown | reason | {"folder": str(path.parent), WEIGHTS: _weights(found)}


def _fault(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"no key {key!r}"
    return f"{key} is {first['input']!r}: {first['msg']}"


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


def _check_unique(rows: Sequence[Row], keys: Sequence[str]) -> None:
    """Refuse two results of the same job."""
    seen: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        identity = tuple(row[key] for key in keys)
        if identity in seen:
            both = f"{seen[identity]['folder']} and {row['folder']}"
            raise FileError(f"{both}: both hold {identity}; give each result once")
        seen[identity] = row


def _check_experiment(rows: Sequence[Row]) -> None:
    """Refuse results of several experiments."""
    for row in rows:
        if row["experiment"] != rows[0]["experiment"]:
            raise FileError(
                f"{row['folder']}: result of experiment {row['experiment']!r}, the others are of "
                f"{rows[0]['experiment']!r}; report one experiment at a time"
            )


def _check_queries(attacks: Sequence[Row]) -> None:
    """Refuse an attack that saw another number of releases elsewhere."""
    first: dict[str, Row] = {}
    for row in attacks:
        other = first.setdefault(row["attack"], row)
        if row["queries"] != other["queries"]:
            raise FileError(
                f"{row['folder']}: {row['attack']} saw {row['queries']} release(s), but "
                f"{other['queries']} in {other['folder']}; rerun the older one"
            )


def _check_attacked_runs(runs: Sequence[Row], attacks: Sequence[Row]) -> None:
    """Refuse attacks on a run that is absent, failed, or has other weights by now."""
    statuses = {(run["defence"], run["seed"]): run["status"] for run in runs}
    weights = {(run["defence"], run["seed"]): run[WEIGHTS] for run in runs}
    for row in attacks:
        victim = (row["defence"], row["seed"])
        if victim not in statuses:
            raise FileError(f"{row['folder']}: attacks {victim}, but that run's metrics are absent")
        if row["status"] == "ok" and statuses[victim] == "failed":
            raise FileError(f"{row['folder']}: scored, but its run failed since; rerun the attack")
        attacked, has = row[WEIGHTS], weights[victim]
        if attacked and has and attacked != has:
            raise FileError(f"{row['folder']}: attacked other weights than its run has; rerun it")


def _bad(path: Path, problem: str) -> FileError:
    return FileError(f"{path}: {problem}; delete it and rerun the job that writes it")
