"""Add the worst case over the attacks to the MLflow runs of a training and of the report."""

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cemlib.records.scores import IDENTIFICATION, SCORES
from cemlib.report.worst_case import RECOGNISER, WORST_CASE, Row, strongest
from cemlib.tracking.numbers import PLAIN
from cemlib.tracking.results import FINISHED, RUNNING, WORST, Result

TOLD = ("mse", "ssim", IDENTIFICATION)
SUMMARY = "tables/summary.csv"
CONVERGED = {"yes": True, "no": False}


def with_worst_case(run: Result, attacks: Sequence[Result | None]) -> Result:
    """Return a finished run with its worst case, once all attacks on it have ended.

    As in the tables, it is over the attacks that see one release, and unknown if one failed. None
    stands for an attack that has written nothing yet, or whose result is stale.
    """
    ended = [attack for attack in attacks if attack is not None and attack.status != RUNNING]
    if run.status != FINISHED or len(ended) < len(attacks):
        return run
    worst = {
        f"{WORST}{knowledge}/{name}": value
        for knowledge, row in _by_knowledge(ended).items()
        for name, value in _told(row).items()
        if math.isfinite(value)
    }
    return replace(run, worst=worst)


def _by_knowledge(attacks: Sequence[Result]) -> dict[str, Row]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for attack in attacks:
        if attack.tags.get("queries") == "1":
            groups[attack.tags["knowledge"]].append(attack)
    return {
        knowledge: strongest([_row(attack) for attack in group])
        for knowledge, group in groups.items()
        if all(attack.status == FINISHED for attack in group)
    }


def _row(attack: Result) -> Row:
    scores = {name: attack.scores.get(PLAIN.get(name, name), math.nan) for name in SCORES}
    converged = CONVERGED.get(attack.tags.get("converged", ""))
    return scores | {"attack": attack.tags["attack"], "converged": converged}


def _told(worst: Row) -> dict[str, float]:
    """Return the scores of a worst case, and 1 if an attack behind one of them is unconverged."""
    unconverged = worst["converged"] is False or worst[RECOGNISER] is False
    scores = {PLAIN.get(name, name): worst[name] for name in TOLD}
    return scores | {"unconverged": float(unconverged)}


def with_summary(report: Result) -> Result:
    """Return the report with each defence's accuracy and worst case from `summary.csv`."""
    table = report.artifacts.get(SUMMARY, b"").decode()
    return replace(report, scores=dict(_summary(csv.DictReader(io.StringIO(table)))))


def _summary(rows: Iterator[Row]) -> Iterator[tuple[str, float]]:
    """Yield metrics by names without a slash, so that MLflow's charts put them last."""
    for row in rows:
        for score in ("top1", *TOLD) if row["attack"] == WORST_CASE else ():
            known = "" if SCORES[score].of_runs else f".{row['knowledge']}"
            for part in ("mean", "ci_low", "ci_high"):
                if value := row[f"{score}_{part}"]:
                    yield f"{row['defence']}{known}.{PLAIN.get(score, score)}_{part}", float(value)
