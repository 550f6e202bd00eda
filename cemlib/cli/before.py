"""The commands before a study runs: `init`, `doctor`, `estimate` and `match`."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from cemlib.cli.columns import aligned, number_text
from cemlib.cli.exits import FailedResultsError, ProblemsError
from cemlib.cli.options import check_first, plan_of
from cemlib.records.files import write_text

if TYPE_CHECKING:
    from cemlib.search.match import Matched, Wanted
    from cemlib.study.requirements import Finding

TEMPLATE = Path(__file__).with_name("study.yaml")


def init(options: argparse.Namespace) -> Iterator[Path]:
    """Write a commented study of an image folder, to be edited.

    Raises:
        ConfigError: if the file already exists, or no study may have this name.
    """
    from cemlib.config import ConfigError, parse
    from cemlib.config.extending import from_text

    path = Path(f"{options.name}.yaml")
    if path.exists():
        raise ConfigError(f"{path}: already exists; choose another name, or delete it")
    root = json.dumps(str(options.images))  # JSON text is valid YAML, whatever it holds
    template = Template(TEMPLATE.read_text(encoding="utf-8"))
    text = template.substitute(name=options.name, root=root)
    parse(from_text(text, str(path)))
    write_text(path, text)
    yield path


def doctor(options: argparse.Namespace) -> Iterator[str]:
    """Check this machine: versions, devices, data, disk, MLflow store.

    Raises:
        ProblemsError: if something would stop a study.
    """
    from cemlib.study.requirements import PROBLEM

    problems = 0
    for one in _findings(options):
        problems += one.level == PROBLEM
        yield f"{one.level:<8} {one.subject:<16} {one.told}"
    if problems:
        raise ProblemsError(f"{problems} problem{'s' if problems > 1 else ''} found")


def _findings(options: argparse.Namespace) -> Iterator["Finding"]:
    """Yield the findings about the machine, then those about the study if one is given."""
    from cemlib.cli.checks import machine, places
    from cemlib.config import ConfigError
    from cemlib.study.requirements import PROBLEM, Finding
    from cemlib.study.systems import read_study

    yield from machine()
    plan = None
    if options.config is not None:
        try:
            plan, _ = read_study(options.config, options.set)
        except ConfigError as error:  # a problem like the others; the checks go on
            for fault in str(error).splitlines():
                yield Finding(PROBLEM, "configuration", fault, "correct it")
    elif options.set:
        yield Finding(PROBLEM, "configuration", "--set without a study to change", "add --config")
    yield from places(options.uri, plan)


def estimate(options: argparse.Namespace) -> Iterator[str]:
    """Estimate how much time and memory a study will take.

    A few steps of each kind of job run on this machine and are extrapolated. Reports and uploads
    are left out.
    """
    plan = plan_of(options)
    check_first(plan)
    from cemlib.search.estimate import estimate

    costs = estimate(plan, _print_progress)
    threads, slots = plan.study.threads, options.slots
    heads = ("job", "jobs", "seconds each", "core hours", "peak MiB", "GPU MiB")
    rows = [
        (
            cost.kind,
            str(cost.jobs),
            f"{cost.seconds:,.1f}",
            f"{cost.jobs * cost.seconds * threads / 3600:,.2f}",
            f"{cost.host:,.0f}",
            f"{cost.card:,.0f}" if cost.card else "-",
        )
        for cost in costs
    ]
    yield aligned([heads, *rows], right=range(1, len(heads)))
    hours = sum(cost.jobs * cost.seconds for cost in costs) / 3600
    host = slots * max(cost.host for cost in costs)
    card = slots * max(cost.card for cost in costs)
    on_card = f", {card:,.0f} MiB on the GPU" if card else ""
    yield (
        f"total by extrapolation: {threads * hours:,.2f} core hours; with --slots {slots}"
        f" {hours / slots:,.2f} hours and {host:,.0f} MiB at most{on_card}"
    )


def match(options: argparse.Namespace) -> Iterator[str]:
    """Find the strength at which a defence reaches an accuracy, with a few trainings.

    The search uses the validation accuracy alone; the runs also have test scores, which it does not
    read. If it was interrupted, run the same command again to continue. Exit code 3 means that a
    training diverged.

    Raises:
        ConfigError: if the defence has no such strength.
        FailedResultsError: at the end, if a training diverged.
    """
    plan = plan_of(options)
    check_first(plan)
    from cemlib.search.match import Wanted, match

    wanted = Wanted(options.defence, options.key, options.accuracy, options.within)
    found = match(plan, wanted, slots=options.slots, say=_print_progress)
    yield from _text(found, wanted)
    if any(score.failed for score in found.tried.values()):
        raise FailedResultsError


def _text(found: "Matched", wanted: "Wanted") -> Iterator[str]:
    """Yield what was tried, how the search ended, a section if it matched, and the record."""
    import yaml

    from cemlib.search.bracket import MATCHED
    from cemlib.search.match import remarks

    heads = (wanted.key, "accuracy [%]", "+- s.e.", "")
    rows = [
        (
            f"{value:g}",
            number_text(score.accuracy),
            number_text(score.standard_error),
            f"failed: {score.failed[0]}" if score.failed else "",
        )
        for value, score in sorted(found.tried.items())
    ]
    yield aligned([heads, *rows], right=range(3))
    yield from ("", *remarks(found, wanted), "")
    if found.found.end == MATCHED:
        yield yaml.safe_dump(found.section, sort_keys=False, default_flow_style=None)
    yield str(found.record)


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
