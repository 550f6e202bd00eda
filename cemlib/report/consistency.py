"""Checks that results belong together, so that no table says something untrue.

Rows are those that `cemlib.report.collect` reads, one per run or attack.
"""

from collections.abc import Sequence
from typing import Any

from cemlib.records.files import FileError

Row = dict[str, Any]
WEIGHTS = "weights_sha256"  # in a row, but no column: of the weights that were left or attacked


def check_unique(rows: Sequence[Row], keys: Sequence[str]) -> None:
    """Refuse two results of the same job."""
    seen: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        identity = tuple(row[key] for key in keys)
        if identity in seen:
            both = f"{seen[identity]['folder']} and {row['folder']}"
            raise FileError(f"{both}: both hold {identity}; give each result once")
        seen[identity] = row


def check_experiment(rows: Sequence[Row]) -> None:
    """Refuse results of several experiments."""
    for row in rows:
        if row["experiment"] != rows[0]["experiment"]:
            raise FileError(
                f"{row['folder']}: result of experiment {row['experiment']!r}, the others are of "
                f"{rows[0]['experiment']!r}; report one experiment at a time"
            )


def check_queries(attacks: Sequence[Row]) -> None:
    """Refuse an attack that saw another number of releases elsewhere."""
    first: dict[str, Row] = {}
    for row in attacks:
        other = first.setdefault(row["attack"], row)
        if row["queries"] != other["queries"]:
            raise FileError(
                f"{row['folder']}: {row['attack']} saw {row['queries']} release(s), but "
                f"{other['queries']} in {other['folder']}; rerun the older one"
            )


def check_attacked_runs(runs: Sequence[Row], attacks: Sequence[Row]) -> None:
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
