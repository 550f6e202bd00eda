"""The commands `compare`, of two defences, and `join`, of several studies."""

import argparse
import json
import textwrap
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cemlib.cli.columns import aligned, figure
from cemlib.cli.options import plan_of
from cemlib.records.files import finite
from cemlib.records.scores import NOTE, marked

if TYPE_CHECKING:
    import pandas as pd

    from cemlib.report.paired import Side

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
    """
    from cemlib.config import ConfigError
    from cemlib.report.paired import compare

    if options.first == options.second:
        raise ConfigError(f"compare: both are {options.first!r}; name two defences")
    table, notes = compare(_side(options, options.first), _side(options, options.second))
    names = {"first": options.first, "second": options.second}
    if options.json:
        rows = finite(table.to_dict("records"))
        yield json.dumps(names | {"notes": notes, "rows": rows}, indent=2)
    else:
        yield as_text(table, notes, **names)


def join(options: argparse.Namespace) -> Iterator[Path]:
    """Put finished studies into one table, each beside the first.

    It has every score of every defence, with the difference of its mean to that in the first study
    and Welch's test. Writes NAME.csv, NAME.md and NAME.tex into the folder `joined` of the first
    study's results.

    Raises:
        ConfigError: if a configuration is faulty, there are fewer than two, or two are of one name.
    """
    from cemlib.config import ConfigError, load
    from cemlib.study.plan import Plan
    from cemlib.study.split import jobs

    plans = [Plan(load(path)) for path in options.configs]
    names = [plan.study.experiment for plan in plans]
    if len(set(names)) < max(2, len(names)):
        raise ConfigError(f"join: at least two experiments, each once, are needed; found {names}")
    from cemlib.report.join import write_joined

    read = {name: jobs(plan)[-1].inputs for name, plan in zip(names, plans, strict=True)}
    metrics = {name: (files["runs"], files["attacks"]) for name, files in read.items()}
    yield from write_joined(metrics, Path(plans[0].study.results) / "joined" / options.name)


def _side(options: argparse.Namespace, name: str) -> "Side":
    """Return the results of a defence, by its name in the study or by the folder of its runs."""
    from cemlib.records.seal import RECORD
    from cemlib.report.paired import read_side
    from cemlib.study.split import jobs_of_one

    if "/" not in name:
        tables, *_ = jobs_of_one(plan_of(options), name)
        return read_side(name, tables.inputs["runs"], tables.inputs["attacks"])
    runs = sorted(Path(name).glob("seed*"), key=lambda run: (len(run.name), run.name))
    attacks = [path for run in runs for path in sorted(run.glob(f"attacks/*/{RECORD}"))]
    return read_side(name, [run / RECORD for run in runs], attacks)


def as_text(table: "pd.DataFrame", notes: Sequence[str], first: str, second: str) -> str:
    """Return a comparison for people: a block for each attack and knowledge."""
    shown = table[table["first"].notna() | table["second"].notna()].reset_index(drop=True)
    heads = ("  score", "first", "second", "difference", "+-", "g_z", "p", "p Holm")
    rows = [_cells(row) for row in shown.to_dict("records")]
    header, *lines = aligned([heads, *rows], right=range(1, 8)).splitlines()
    text = [header]
    for (attack, knowledge), block in shown.groupby(["attack", "knowledge"], sort=False):
        name = f"{attack}, {knowledge}" if attack else "accuracy and leakage bound"
        text += [f"{name}: {block['n_pairs'].iloc[0]} pairs", *(lines[row] for row in block.index)]
    tests = shown["p_holm"].notna().sum()
    names = f"first: {first}\nsecond: {second}"
    parts = [names, "\n".join(notes), "\n".join(text), _HOW.format(tests=tests)]
    if (shown["unconverged"] != "").any():
        parts.append(textwrap.fill(NOTE, 80))
    return "\n\n".join(parts)


def _cells(row: "Mapping[Hashable, Any]") -> tuple[str, ...]:
    means = (figure(row[name]) for name in ("first", "second", "difference"))
    half = row["ci_high"] - row["difference"]
    spread = (figure(number, digits=3) for number in (half, row["g_z"]))
    tests = (figure(number, digits=2) for number in (row["p"], row["p_holm"]))
    return (marked(f"  {row['metric']}", bool(row["unconverged"])), *means, *spread, *tests)
