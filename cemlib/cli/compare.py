"""The commands `compare`, of two defences, and `join`, of several studies."""

import argparse
import json
import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.cli.columns import aligned, figure
from cemlib.cli.options import plan_of
from cemlib.records.files import finite
from cemlib.records.scores import NOTE, marked

if TYPE_CHECKING:
    from cemlib.report.paired import Comparison, Row, Side
    from cemlib.study.job import AnyJob

_HOW = """\
Means over the common seeds. difference: first minus second, +- half the width
of the 95 % Student-t interval of the paired differences. g_z: difference in
standard deviations of those, corrected for few seeds. p: paired t test,
two-sided, of the worst case's MSE, the one score that is tested. p Holm:
corrected for all {tests} rows that have a p."""


def compare(options: argparse.Namespace) -> Iterator[str]:
    """Compare two defences, score by score, paired over their common seeds.

    Differences and their 95 % Student-t intervals are those of comparisons.csv, for every score of
    every attack and of the worst case. The worst case's MSE has a p, corrected by Holm over the
    rows that have one. Failed and absent seeds are told and left out; where nothing can be paired,
    there is no interval.

    Raises:
        ConfigError: if there is no such defence, or both are the same.
        FileError: if a result is of other settings, data or code than the study's, without --stale;
            of a folder, if a result is of another defence or seed than its name says.
    """
    from cemlib.config import ConfigError
    from cemlib.report.paired import compare
    from cemlib.study.finished import check, mismatches

    if options.first == options.second:
        raise ConfigError(f"compare: both are {options.first!r}; name two defences")
    owned = [_owned(options, name) for name in (options.first, options.second)]
    told = [line for side in owned for line in mismatches(side)]
    if not options.stale:
        check(told)
    found = compare(*map(_side, (options.first, options.second), owned))
    found = replace(found, notes=(*(f"stale: {line}" for line in told), *found.notes))
    write = as_json if options.json else as_text
    yield write(found, options.first, options.second)


def join(options: argparse.Namespace) -> Iterator[Path]:
    """Put finished studies into one table, each beside the first.

    It has every score of every defence, with the difference of its mean to that in the first study
    and Welch's test. Writes NAME.csv, NAME.md and NAME.tex into the folder `joined` of the first
    study's results.

    Raises:
        ConfigError: if a configuration is faulty, there are fewer than two, or two are of one name.
        FileError: if a result is of other settings, data or code than its study's.
    """
    from cemlib.config import ConfigError, load
    from cemlib.study.finished import check, mismatches
    from cemlib.study.job import owners
    from cemlib.study.plan import Plan
    from cemlib.study.split import jobs

    plans = [Plan(load(path)) for path in options.configs]
    names = [plan.study.experiment for plan in plans]
    if len(set(names)) < max(2, len(names)):
        raise ConfigError(f"join: at least two experiments, each once, are needed; found {names}")
    from cemlib.report.join import write_joined

    pages = {plan.study.experiment: jobs(plan)[-1] for plan in plans}
    check(line for page in pages.values() for line in mismatches(owners(page.reads)))
    metrics = {name: (page.inputs["runs"], page.inputs["attacks"]) for name, page in pages.items()}
    yield from write_joined(metrics, Path(plans[0].study.results) / "joined" / options.name)


def _owned(options: argparse.Namespace, name: str) -> "dict[Path, AnyJob | None]":
    """Return the records of a defence, by its name in the study or by the folder of its runs."""
    from cemlib.records.seal import RECORD
    from cemlib.study.job import owners
    from cemlib.study.split import jobs_of_one

    if "/" not in name:
        tables, *_ = jobs_of_one(plan_of(options), name)
        return {**owners(tables.reads)}
    runs = sorted(Path(name).glob("seed*"), key=lambda run: (len(run.name), run.name))
    attacks = [path for run in runs for path in sorted(run.glob(f"attacks/*/{RECORD}"))]
    return dict.fromkeys([*(run / RECORD for run in runs), *attacks])


def _side(name: str, records: Iterable[Path]) -> "Side":
    from cemlib.report.paired import read_side

    runs, attacks = list[Path](), list[Path]()
    for record in records:
        (attacks if record.parent.parent.name == "attacks" else runs).append(record)
    return read_side(name, runs, attacks)


def as_json(found: "Comparison", first: str, second: str) -> str:
    """Return a comparison as one JSON object."""
    told = {
        "first": first,
        "second": second,
        "notes": found.notes,
        "rows": [asdict(row) for row in found.rows],
    }
    return json.dumps(finite(told), indent=2)


def as_text(found: "Comparison", first: str, second: str) -> str:
    """Return a comparison for people: a block for each attack and knowledge."""
    shown = [row for row in found.rows if not (math.isnan(row.first) and math.isnan(row.second))]
    heads = ("  score", "first", "second", "difference", "+-", "g_z", "p", "p Holm")
    header, *lines = aligned([heads, *map(_cells, shown)], right=range(1, 8)).splitlines()
    blocks: dict[str, list[str]] = {}
    for row, line in zip(shown, lines, strict=True):
        blocks.setdefault(_title(row), []).append(line)
    table = [header, *(line for title, rows in blocks.items() for line in (title, *rows))]
    tests = sum(not math.isnan(row.p_holm) for row in shown)
    names = f"first: {first}\nsecond: {second}"
    parts = [names, "\n".join(found.notes), "\n".join(table), _HOW.format(tests=tests)]
    if any(any(row.unconverged) for row in shown):
        parts.append(textwrap.fill(NOTE, 80))
    return "\n\n".join(parts)


def _title(row: "Row") -> str:
    """Return what stands above the rows of an attack with one knowledge."""
    name = f"{row.attack}, {row.knowledge}" if row.attack else "accuracy and leakage bound"
    return f"{name}: {row.difference.n} pairs"


def _cells(row: "Row") -> tuple[str, ...]:
    found = row.difference
    means = map(figure, (row.first, row.second, found.mean))
    spread = (figure(number, digits=3) for number in (found.high - found.mean, found.g_z))
    tests = (figure(number, digits=2) for number in (found.p, row.p_holm))
    return (marked(f"  {row.score}", any(row.unconverged)), *means, *spread, *tests)
