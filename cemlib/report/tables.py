"""Read the results of a study, and make its tables: every result, and means over the seeds."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cemlib.records.files import FileError
from cemlib.records.layout import AttackFolder
from cemlib.records.scores import IDENTIFICATION, RECOGNITION, SCORES, UNBOUNDED, impossible
from cemlib.records.seal import check_files, read_sealed
from cemlib.report.statistics import mean_columns
from cemlib.report.worst_case import unconverged, worst_cases

# Columns of the records, in groups.
JOB = ("experiment", "defence", "seed", "status", "reason", "wall_seconds", "peak_memory_mb")
LEAKAGE = ("leakage_nats", "leakage_images")
EPOCHS = ("selected_epoch", "selected_on", "epochs")
CODE = ("fingerprint", "commit")
ERRORS = ("mse", "psnr", "psnr_of_mean_mse", "ssim", "ssim_valid")
ATTACK = ("queries", "late_improvement", "converged", "n_images")
_OF_RUNS = (*JOB, "top1", "val_top1", "chance_top1", *LEAKAGE, *EPOCHS)
_OF_ATTACKS = (*JOB, "attack", "knowledge", *ERRORS, *RECOGNITION, *ATTACK)
RUN_COLUMNS = [*_OF_RUNS, *CODE, "folder"]
ATTACK_COLUMNS = [*_OF_ATTACKS, "folder"]
_NEEDED = ("top1", "mse", "ssim", IDENTIFICATION)  # there unless the job failed
_SCORES = {*_NEEDED, *RECOGNITION, *UNBOUNDED}
_TABLE_COLUMNS = (
    *("experiment", "defence", "seed", "attack", "knowledge", "status", "reason"),
    *("top1", "val_top1", "chance_top1", *LEAKAGE, *ERRORS, *RECOGNITION, *ATTACK, *EPOCHS),
    *("train_seconds", "attack_seconds", "train_peak_memory_mb", "attack_peak_memory_mb"),
    *(*CODE, "folder"),
)
_MARGIN = 0.1  # relative to the share or to the rest, whichever is smaller
_COSTS = {
    "wall_seconds_run": "train_seconds",
    "wall_seconds": "attack_seconds",
    "peak_memory_mb_run": "train_peak_memory_mb",
    "peak_memory_mb": "attack_peak_memory_mb",
}
_COUNTS = ("queries", "n_images", "leakage_images", "selected_epoch", "epochs")


def collect(
    run_metrics: Sequence[Path], attack_metrics: Sequence[Path] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the ``metrics.json`` of runs and attacks into `RUN_COLUMNS` and `ATTACK_COLUMNS`.

    Scores of failed jobs are NaN; an unbounded leakage or PSNR is ``inf``. `cemlib.study.finished`
    checks beforehand that the results belong together, and to the study.

    Raises:
        FileError: naming the file that is missing or damaged, or lacks a key or a score.
    """
    runs = [_row(path, "run", _OF_RUNS) for path in run_metrics]
    attacks = [_row(path, "attack", _OF_ATTACKS) for path in attack_metrics]
    return pd.DataFrame(runs, columns=RUN_COLUMNS), pd.DataFrame(attacks, columns=ATTACK_COLUMNS)


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


def present(frame: pd.DataFrame, defences: Sequence[str]) -> list[str]:
    """Return those of ``defences`` that have a row; raise ValueError if a row has another one."""
    found = set(frame["defence"])
    unlisted = sorted(found - set(defences))
    if unlisted:
        raise ValueError(
            f"results of {', '.join(unlisted)} were given, but the order names only "
            f"{', '.join(defences)}: add them to the order or leave their results out"
        )
    return [defence for defence in defences if defence in found]


def at_chance(runs: pd.DataFrame) -> "pd.Series[bool]":
    """Return for each run whether it hardly beats always naming the most frequent class.

    Its accuracy is at most 1.1 times that of this answer or, if this is above 50 %, its error is at
    least 0.9 times that of this answer.
    """
    chance = runs["chance_top1"]
    return runs["top1"] - chance <= _MARGIN * np.minimum(chance, 1 - chance)


def runs_table(
    runs: pd.DataFrame, attacks: pd.DataFrame, defences: Sequence[str], root: Path
) -> pd.DataFrame:
    """Return a row per run, attack and knowledge, failed ones with their reason.

    A run that was not attacked has a row without an attack. The rows are in the order of
    ``defences``, and ``folder`` is relative to ``root``, the folder of the experiment.
    """
    key = ["experiment", "defence", "seed"]
    table = runs.merge(attacks, on=key, how="left", suffixes=("_run", ""))
    for column in ("status", "reason", "folder"):
        table[column] = table[column].fillna(table[f"{column}_run"])
    table[["attack", "knowledge"]] = table[["attack", "knowledge"]].fillna("")
    table["folder"] = [Path(folder).relative_to(root).as_posix() for folder in table["folder"]]
    table = table.rename(columns=_COSTS).astype(dict.fromkeys(_COUNTS, "Int64"))
    return _ordered(table, defences)[list(_TABLE_COLUMNS)]


def read_runs(table: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the runs and the attacks of a published ``runs.csv``, as `collect` returns them.

    Columns that an earlier version did not write are NaN. The folders that the table names
    need not exist.
    """
    # A defence may be called `inf`, `None` or `NA`, which pandas would read otherwise.
    names = ("experiment", "defence", "attack", "reason", "selected_on", *CODE)
    texts = dict.fromkeys(names, str)
    rows = pd.read_csv(table, dtype=texts, keep_default_na=False, na_values=[""])
    rows["reason"] = rows["reason"].fillna("")
    rows = rows.rename(columns={column: name for name, column in _COSTS.items()})
    attacks = rows.dropna(subset=["knowledge"]).reindex(columns=ATTACK_COLUMNS)
    of_attacks = ["wall_seconds", "peak_memory_mb"]
    runs = rows.drop_duplicates(["defence", "seed"]).drop(columns=of_attacks, errors="ignore")
    runs = runs.rename(columns=lambda name: name.removesuffix("_run")).reindex(columns=RUN_COLUMNS)
    runs["status"] = runs["top1"].notna().map({True: "ok", False: "failed"})
    return runs, attacks


def summary_table(
    runs: pd.DataFrame, attacks: pd.DataFrame, defences: Sequence[str]
) -> pd.DataFrame:
    """Return a row per defence, attack and knowledge, those of `worst_cases` included.

    The rows are in the order of ``defences``.

    Returns:
        ``queries`` is the largest number of releases seen. Of ``n_seeds`` results, ``n_failed``
        failed (``n_failed_runs`` because the training did), ``n_at_chance`` are of a classifier at
        chance (see `at_chance`), ``n_selected_on_test`` of one whose epoch was chosen on the test
        images, ``n_unconverged`` rest on an attack that had not converged, and
        ``n_unconverged_recon`` do so for recon_top1. ``n_images`` is the number of images that the
        attack's scores are of, ``leakage_images`` that of leakage_nats, the smallest of any run.
        The means and 95 % t intervals ``<score>_mean``, ``<score>_ci_low``, ``<score>_ci_high`` are
        over the results that did not fail; top1 and leakage_nats are the same in each row of a
        defence. ``strongest`` names the attacks of a worst case.

    Raises:
        ValueError: if there is no attack.
    """
    if attacks.empty:
        raise ValueError("no result of an attack, and the summary has a row for each attack")
    scored = _ordered(pd.concat([attacks, worst_cases(attacks)]), defences)
    scored["late"] = unconverged(scored, "mse")
    scored["late_recon"] = unconverged(scored, IDENTIFICATION)
    runs = runs.assign(at_chance=at_chance(runs))
    trained: dict[Any, pd.DataFrame] = dict(iter(runs.groupby("defence")))
    keys = ["defence", "attack", "knowledge"]
    table = pd.DataFrame(
        {
            **dict(zip(keys, names, strict=True)),
            **_summary_row(trained.get(names[0], runs[:0]), group),
        }
        for names, group in scored.groupby(keys, sort=False)
    )
    return table.astype(dict.fromkeys(("n_images", "leakage_images"), "Int64"))


def _ordered(frame: pd.DataFrame, defences: Sequence[str]) -> pd.DataFrame:
    """Return rows by defence, then knowledge and attack as they first appear, then seed."""
    orders: dict[Any, list[str]] = {
        "defence": present(frame, defences),
        "knowledge": list(frame["knowledge"].unique()),
        "attack": list(frame["attack"].unique()),
    }
    return frame.sort_values(
        [*orders, "seed"], key=lambda c: pd.Categorical(c, orders.get(c.name)), ignore_index=True
    )


def _summary_row(runs: pd.DataFrame, group: pd.DataFrame) -> dict[str, Any]:
    victims = runs[runs["seed"].isin(group["seed"])]
    row: dict[str, Any] = {
        "queries": int(group["queries"].iloc[0]),
        "n_seeds": len(group),
        "n_failed": int((group["status"] == "failed").sum()),
        "n_failed_runs": int((victims["status"] == "failed").sum()),
        "n_at_chance": int(victims["at_chance"].sum()),
        "n_selected_on_test": int((victims["selected_on"] == "best_test").sum()),
        "n_unconverged": int(group["late"].sum()),
        "n_unconverged_recon": int(group["late_recon"].sum()),
        "n_images": group.loc[group["status"] == "ok", "n_images"].min(),
        "leakage_images": victims["leakage_images"].min(),
        "strongest": counted(group["strongest"].dropna()),
    }
    for name, score in SCORES.items():
        row |= mean_columns(name, (victims if score.of_runs else group)[name].tolist())
    return row


def records(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, by the names of its columns."""
    for row in table.to_dict("records"):
        yield {str(column): value for column, value in row.items()}


def counted(names: Iterable[str]) -> str:
    """Return ``a`` if all names are a, else ``a (2), b (1)``; an empty text if there are none."""
    counts = Counter(name for name in names if name).most_common()
    if len(counts) == 1:
        return counts[0][0]
    return ", ".join(f"{name} ({count})" for name, count in counts)
