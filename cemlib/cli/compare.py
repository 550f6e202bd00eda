"""The command `compare`."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.cli.options import plan_of

if TYPE_CHECKING:
    from cemlib.study.job import AnyJob


def compare(options: argparse.Namespace) -> Iterator[str]:
    """Compare two defences of a study, paired over the seeds that both have.

    Prints the tables of comparisons.html for these two alone, with the second as the reference; the
    tests are corrected for the number of the attacker's knowledges. Missing results are left out.

    Raises:
        ConfigError: if there is no such defence, or both are the same.
        FileError: if one of them has no finished run, neither has an attack, or, without --stale, a
            result was made with other settings, data or code than the study's.
    """
    from cemlib.config import ConfigError
    from cemlib.records.files import finite
    from cemlib.report.collect import collect
    from cemlib.report.comparisons import comparisons_table, with_image_intervals
    from cemlib.report.texts import comparisons_document
    from cemlib.report.writer import markdown
    from cemlib.study.finished import check, mismatches

    pair = (options.first, options.second)
    if options.first == options.second:
        raise ConfigError(f"compare: both are {options.first!r}; name two defences")
    owned = _records(options, pair)
    told = list(mismatches(owned))
    if not options.stale:
        check(told)
    runs, attacks = collect(*_sorted(owned))
    table = with_image_intervals(comparisons_table(runs, attacks, pair, options.second), attacks)
    if options.json:
        rows = finite(table.to_dict("records"))
        yield json.dumps({"stale": told, "rows": rows} if told else rows, indent=2)
    else:
        yield from (f"stale: {line}" for line in told)
        yield markdown(comparisons_document(table))


def _records(options: argparse.Namespace, defences: Sequence[str]) -> "dict[Path, AnyJob]":
    """Return the existing records of some defences' runs and attacks, with their jobs."""
    from cemlib.records.files import FileError
    from cemlib.study.job import owners
    from cemlib.study.split import jobs_of_one

    plan = plan_of(options)
    owned: dict[Path, AnyJob] = {}
    for name in defences:
        tables, *_ = jobs_of_one(plan, name)
        there = {path: job for path, job in owners(tables.reads).items() if path.is_file()}
        if not any(job.kind == "train" for job in there.values()):
            raise FileError(f"{name}: no finished run in {plan.layout.root}; train it first")
        owned |= there
    return owned


def _sorted(owned: "Mapping[Path, AnyJob]") -> tuple[list[Path], list[Path]]:
    """Return the records of runs, and those of the attacks on them."""
    runs = [path for path, job in owned.items() if job.kind == "train"]
    others = [path for path in owned if path not in runs]
    return runs, [path for path in others if path.parents[2] / path.name in runs]
