"""The commands `compare`, of two defences, and `join`, of several studies."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from cemlib.cli.options import plan_of


def compare(options: argparse.Namespace) -> Iterator[str]:
    """Compare two defences of a study, paired over the seeds that both have.

    Prints the tables of comparisons.html for these two alone, the second as the reference: what is
    tested is corrected over the attacker's knowledges. Results that are not there are left out.

    Raises:
        ConfigError: if there is no such defence, or both are the same.
        FileError: if one of them has no finished run, or neither has an attack.
    """
    from cemlib.config import ConfigError
    from cemlib.records.files import finite
    from cemlib.report.collect import collect
    from cemlib.report.comparisons import comparisons_table, with_image_intervals
    from cemlib.report.texts import comparisons_document
    from cemlib.report.writer import markdown

    pair = (options.first, options.second)
    if options.first == options.second:
        raise ConfigError(f"compare: both are {options.first!r}; name two defences")
    runs, attacks = collect(*_records(options, pair))
    table = with_image_intervals(comparisons_table(runs, attacks, pair, options.second), attacks)
    if options.json:
        yield json.dumps(finite(table.to_dict("records")), indent=2)
    else:
        yield markdown(comparisons_document(table))


def _records(options: argparse.Namespace, defences: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Return the records that there are of some defences' runs, and of the attacks on these."""
    from cemlib.records.files import FileError
    from cemlib.study.split import jobs_of_one

    plan, runs, attacks = plan_of(options), list[Path](), list[Path]()
    for name in defences:
        tables, *_ = jobs_of_one(plan, name)
        there = [path for path in tables.inputs["runs"] if path.is_file()]
        if not there:
            raise FileError(f"{name}: no finished run in {plan.layout.root}; train it first")
        runs += there
        made = [path for path in tables.inputs["attacks"] if path.is_file()]
        attacks += [path for path in made if path.parents[2] / path.name in there]
    return runs, attacks


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
