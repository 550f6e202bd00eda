"""Two defences side by side: paired differences of all their scores.

The statistics are those of `comparisons.csv`; what differs is what Holm's method corrects for: here
the knowledges and numbers of releases, there also the other defences of a study.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from cemlib.records.files import FileError, read_json
from cemlib.records.scores import ATTACK_SCORES, IDENTIFICATION, RUN_SCORES, TESTED
from cemlib.report.collect import ATTACK_COLUMNS, collect, collect_runs
from cemlib.report.statistics import Difference, holm, paired_difference
from cemlib.report.worst_case import RECOGNISER, WORST_CASE, unconverged, worst_cases


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


@dataclass(frozen=True)
class Row:
    """One score of both: means over the seeds that both have, and the paired difference."""

    attack: str
    knowledge: str
    score: str
    first: float
    second: float
    difference: Difference
    unconverged: tuple[bool, bool]  # whether either side rests on an attack that had not converged
    p_holm: float = math.nan


@dataclass(frozen=True)
class Comparison:
    """All rows, and what a reader must know of them."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]


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


def compare(first: Side, second: Side) -> Comparison:
    """Return paired differences, first minus second, over the seeds that both have.

    Only the MSE of the worst cases is tested and has a p. Runs on different data share nothing that
    a pair could cancel. For them, and where no seed is finished on both sides, the rows have the
    means over each side's own seeds and their difference, but neither an interval nor a p.
    """
    common = _finished(first.runs) & _finished(second.runs)
    paired = len(first.data | second.data) < 2 and bool(common)
    rows = list(_rows(first, second, paired))
    adjusted = holm([row.difference.p for row in rows])
    corrected = tuple(replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True))
    return Comparison(corrected, tuple(_notes(first, second, len(common), paired)))


def _rows(first: Side, second: Side, paired: bool) -> Iterator[Row]:
    for score in RUN_SCORES:
        yield _row("", "", score, (first.runs, second.runs), paired)
    keys = ["attack", "knowledge"]
    others = dict(iter(second.attacks.groupby(keys, sort=False)))
    for names, frame in first.attacks.groupby(keys, sort=False):
        attack, knowledge = map(str, names)
        for score in (*ATTACK_SCORES, IDENTIFICATION) if names in others else ():
            yield _row(attack, knowledge, score, (frame, others[names]), paired)


def _row(
    attack: str, knowledge: str, score: str, results: Sequence[pd.DataFrame], paired: bool
) -> Row:
    sides = [frame[frame["status"] == "ok"].set_index("seed") for frame in results]
    if paired:
        seeds = sides[0].index.intersection(sides[1].index)
        sides = [side.loc[seeds] for side in sides]
    ours, theirs = (side[score].tolist() for side in sides)
    means = _mean(ours), _mean(theirs)
    alone = Difference(means[0] - means[1], math.nan, math.nan, 0)
    difference = paired_difference(ours, theirs) if paired else alone
    if score != TESTED or not attack.startswith(WORST_CASE):
        difference = replace(difference, p=math.nan, p_permutation=math.nan)
    first, second = (bool(unconverged(side, score).any()) for side in sides)
    return Row(attack, knowledge, score, *means, difference, (first, second))


def _finished(runs: pd.DataFrame) -> set[int]:
    return set(runs[runs["status"] == "ok"]["seed"])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


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
