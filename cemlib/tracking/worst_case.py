"""The worst case of a training, which its MLflow run tells beside the runs of the attacks."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from cemlib.records.scores import IDENTIFICATION, SCORES
from cemlib.report.worst_case import WORST_CASE, Row, strongest
from cemlib.tracking.notes import describe_worst_case
from cemlib.tracking.numbers import PLAIN
from cemlib.tracking.results import FINISHED, RUNNING, Result

TOLD = ("mse", "ssim", IDENTIFICATION)
CONVERGED = {"yes": True, "no": False}


def with_worst_case(run: Result, attacks: Sequence[Result | None]) -> Result:
    """Return a finished run with its worst case, once all attacks on it have ended.

    As in the tables, it is over the attacks that see one release, and unknown where one failed.

    Args:
        run: A training.
        attacks: Every attack on it; None for one that has left nothing yet.
    """
    ended = [attack for attack in attacks if attack is not None and attack.status != RUNNING]
    if run.status != FINISHED or len(ended) < len(attacks):
        return run
    groups: dict[str, list[Result]] = defaultdict(list)
    for attack in ended:
        if attack.tags.get("queries") == "1":
            groups[attack.tags["knowledge"]].append(attack)
    found = {
        knowledge: strongest([_row(attack) for attack in group])
        for knowledge, group in groups.items()
        if all(attack.status == FINISHED for attack in group)
    }
    if not found:
        return run
    worst = {
        f"{WORST_CASE}/{knowledge}/{PLAIN.get(score, score)}": row[score]
        for knowledge, row in found.items()
        for score in TOLD
        if math.isfinite(row[score])
    }
    note = describe_worst_case(run.scores["top1"], found, TOLD)
    return replace(run, worst=worst, note=f"{note}\n\n{run.note}")


def _row(attack: Result) -> Row:
    scores = {name: attack.scores.get(PLAIN.get(name, name), math.nan) for name in SCORES}
    converged = CONVERGED.get(attack.tags.get("converged", ""))
    return scores | {"attack": attack.tags["attack"], "converged": converged}
