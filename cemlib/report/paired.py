"""Two defences side by side: paired differences of all their scores.

The statistics are those of `comparisons.csv`; what differs is what Holm's method corrects for: here
the knowledges and numbers of releases, there also the other defences of a study.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from cemlib.records.files import FileError, read_json
from cemlib.records.scores import ATTACK_SCORES, IDENTIFICATION, RUN_SCORES, TESTED
from cemlib.report.collect import ATTACK_COLUMNS, collect, collect_runs
from cemlib.report.comparisons import difference_of, finished_results
from cemlib.report.statistics import holm
from cemlib.report.worst_case import RECOGNISER, WORST_CASE, worst_cases


@dataclass(frozen=True)
class Side:
    """The results of one defence.

    Attributes:
        name: What messages call it.
        runs: As `collect` returns them.
        attacks: Likewise, with the worst cases first.
        absent: Seeds of the study without a finished training.
        data: Checksums of the data that the runs were trained on.
    """

    name: str
    runs: pd.DataFrame
    attacks: pd.DataFrame
    absent: tuple[str, ...]
    data: frozenset[str]


def read_side(name: str, runs: Sequence[Path], attacks: Sequence[Path]) -> Side:
    """Read what there is of a defence's results.

    Args:
        name: what messages call it.
        runs: the records of all its runs, present or not.
        attacks: those of the attacks on them, likewise.

    Raises:
        FileError: if no run is there, or a file is damaged (see `collect`).
    """
    there = [path for path in runs if path.is_file()]
    made = [path for path in attacks if path.is_file() and path.parents[2] / path.name in there]
    if not there:
        wanted = ", ".join(path.parent.name for path in runs) or "seed0 and so on"
        raise FileError(f"{name}: no finished run here (looked for {wanted}); train it first")
    if made:
        read_runs, read_attacks = collect(there, made)
        read_attacks = pd.concat([worst_cases(read_attacks), read_attacks])
    else:
        read_runs = collect_runs(there)
        read_attacks = pd.DataFrame(columns=[*ATTACK_COLUMNS, "strongest", RECOGNISER])
    absent = tuple(path.parent.name for path in runs if path not in there)
    data = frozenset(str(f) for path in there if (f := read_json(path).get("data_sha256")))
    return Side(name, read_runs, read_attacks, absent, data)


def compare(first: Side, second: Side) -> tuple[pd.DataFrame, list[str]]:
    """Return paired differences, first minus second, over the seeds that both have, and notes.

    Runs on different data share nothing that a pair could cancel. For them, and where no seed is
    finished on both sides, the rows have the means over each side's own seeds and their difference,
    but neither an interval nor a p.

    Returns:
        A row for each score of the runs (without ``attack``) and of each attack that both have:
        ``first`` and ``second`` are means, the rest is as in comparisons.csv; only the MSE of the
        worst cases is tested and has a p. And what a reader must know of them.
    """
    common = _finished(first.runs) & _finished(second.runs)
    paired = len(first.data | second.data) < 2 and bool(common)
    table = pd.DataFrame(_rows(first, second, paired))
    tested = (table["metric"] == TESTED) & table["attack"].str.startswith(WORST_CASE)
    table.loc[~tested, ["p", "p_permutation"]] = math.nan
    table["p_holm"] = holm(table["p"].tolist())
    return table, list(_notes(first, second, len(common), paired))


def _rows(first: Side, second: Side, paired: bool) -> Iterator[dict[str, Any]]:
    for score in RUN_SCORES:
        sides = {first.name: first.runs, second.name: second.runs}
        yield {"attack": "", "knowledge": ""} | _row(sides, score, paired)
    keys = ["attack", "knowledge"]
    others = dict(iter(second.attacks.groupby(keys, sort=False)))
    for names, frame in first.attacks.groupby(keys, sort=False):
        for score in (*ATTACK_SCORES, IDENTIFICATION) if names in others else ():
            sides = {first.name: frame, second.name: others[names]}
            yield dict(zip(keys, names, strict=True)) | _row(sides, score, paired)


def _row(sides: Mapping[str, pd.DataFrame], score: str, paired: bool) -> dict[str, Any]:
    return {"metric": score} | difference_of(
        finished_results(sides, paired=paired), score, paired=paired
    )


def _finished(runs: pd.DataFrame) -> set[int]:
    return set(runs[runs["status"] == "ok"]["seed"])


def _notes(first: Side, second: Side, common: int, paired: bool) -> Iterator[str]:
    for side in (first, second):
        yield from _notes_of(side)
    if common == 0:
        yield "no seed is finished on both sides: not paired, so no interval and no p"
    elif not paired:
        yield "trained on different data: not paired, so no interval and no p"
    elif common == 1:
        yield "one common seed: a difference, but no interval and no p"
    yield from _notes_on_attacks(first, second)


def _notes_of(side: Side) -> Iterator[str]:
    failed = side.runs[side.runs["status"] == "failed"]
    finished = len(side.runs) - len(failed)
    wanted = len(side.runs) + len(side.absent)
    yield f"{side.name}: {finished} of {wanted} seeds finished"
    for _, run in failed.iterrows():
        yield f"{side.name}: seed{run['seed']} failed: {run['reason']}"
    if side.absent:
        yield f"{side.name}: {', '.join(side.absent)} not trained yet"
    attacked = side.attacks["seed"].isin(_finished(side.runs))
    attacks = side.attacks[attacked & (side.attacks["status"] == "failed")]
    for _, row in attacks.iterrows():
        yield f"{side.name}: seed{row['seed']} {row['attack']} {row['knowledge']}: {row['reason']}"


def _notes_on_attacks(first: Side, second: Side) -> Iterator[str]:
    for side, other in ((first, second), (second, first)):
        lacks = set(side.attacks["attack"]) - set(other.attacks["attack"])
        if lacks:
            yield (
                f"only {side.name} has {', '.join(sorted(lacks))}: the worst case of {other.name}"
                " may be over fewer attacks"
            )
