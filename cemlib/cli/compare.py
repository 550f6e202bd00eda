"""The command `compare`."""

import argparse
import json
from collections.abc import Iterator
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
    from cemlib.records.files import FileError, finite
    from cemlib.report.collect import collect
    from cemlib.report.comparisons import comparisons_table, with_image_intervals
    from cemlib.report.texts import comparisons_document
    from cemlib.report.writer import markdown
    from cemlib.study.finished import check, mismatches
    from cemlib.study.job import owners
    from cemlib.study.split import jobs_of_one

    plan, pair = plan_of(options), (options.first, options.second)
    if options.first == options.second:
        raise ConfigError(f"compare: both are {options.first!r}; name two defences")
    owned: dict[Path, AnyJob | None] = {}
    runs: list[Path] = []
    for name in pair:
        tables, *_ = jobs_of_one(plan, name)
        found = [path for path in tables.inputs["runs"] if path.is_file()]
        if not found:
            raise FileError(f"{name}: no finished run in {plan.layout.root}; train it first")
        runs += found
        owned |= owners(tables.reads)
    told = list(mismatches(owned))
    if not options.stale:
        check(told)
    folders = {run.parent for run in runs}
    attacks = [path for path in owned if path.parents[2] in folders and path.is_file()]
    rows, scores = collect(runs, attacks)
    table = with_image_intervals(comparisons_table(rows, scores, pair, options.second), scores)
    if options.json:
        records = finite(table.to_dict("records"))
        yield json.dumps({"stale": told, "rows": records} if told else records, indent=2)
    else:
        yield from (f"stale: {line}" for line in told)
        yield markdown(comparisons_document(table))
