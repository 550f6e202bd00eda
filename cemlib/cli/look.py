"""The subcommands that look and change nothing: list, show, compare, doctor."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.cli.options import DEFAULT_CONFIG, Commands, add_command, add_config, add_uri, plan_of

if TYPE_CHECKING:
    from cemlib.config import Study
    from cemlib.plan import Plan
    from cemlib.report.paired import Side

RUNS = "runs"
OWN = ("defences", "attacks")  # what a study names itself
# A test compares them with the catalogue, which takes its time to import.
KINDS = ("defences", "surrogates", "channels", "penalties", "models", "attacks", "data")

STATISTICS = (
    "Differences, their 95 % Student-t intervals and p are those of comparisons.csv, for every"
    " score of every attack and of the worst case; Holm's correction is over all rows shown. Failed"
    " and absent seeds are told and left out; where nothing can be paired, there is no interval."
)
LOOKED_UP = "the study in which names are looked up (default: %(default)s)"


def add_list(commands: Commands) -> None:
    """Add the subcommand to the command line."""
    text = "list what a configuration can name, or the runs of a study"
    parser = add_command(commands, "list", text, run_list)
    parser.add_argument(
        "kind",
        nargs="?",
        choices=(*KINDS, RUNS),
        metavar="KIND",
        help=f"only one kind: {', '.join(KINDS)} (default: all these), or {RUNS}, how far each run"
        " of a study is",
    )
    about = (
        f"also list this study's own defences and attacks; whose runs (default: {DEFAULT_CONFIG})"
    )
    add_config(parser, about, None)


def add_show(commands: Commands) -> None:
    """Add the subcommand to the command line."""
    text = "show a run or an attack: settings, numbers, provenance, whether its files are untouched"
    parser = add_command(commands, "show", text, run_show)
    parser.add_argument(
        "run",
        metavar="RUN",
        help="its folder, or its name in the study: judge, DEFENCE/seedK or"
        " DEFENCE/seedK/ATTACK-KNOWLEDGE",
    )
    add_config(parser, LOOKED_UP)
    parser.add_argument(
        "--all", action="store_true", help="all settings, not only those that differ from defaults"
    )
    _add_json(parser)


def add_compare(commands: Commands) -> None:
    """Add the subcommand to the command line."""
    text = "compare two defences, score by score, paired over their common seeds"
    parser = add_command(commands, "compare", text, run_compare, STATISTICS)
    for name in ("first", "second"):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help="a defence of the study, or the folder of a defence's runs (results/x/runs/y)",
        )
    add_config(parser, LOOKED_UP)
    _add_json(parser)


def add_doctor(commands: Commands) -> None:
    """Add the subcommand to the command line."""
    text = "check this machine: versions, devices, memory, data, disk, MLflow store"
    parser = add_command(commands, "doctor", text, run_doctor)
    add_config(parser, "also check what this study needs", None)
    add_uri(parser)


def run_list(options: argparse.Namespace) -> Iterator[str]:
    """List names, or runs."""
    from cemlib.cli import listed

    if options.kind == RUNS:
        options.config = options.config or DEFAULT_CONFIG
        yield from listed.runs(plan_of(options))
        return
    study: Study | None = plan_of(options).study if options.config else None
    for kind in (options.kind,) if options.kind else KINDS:
        yield from listed.names(kind, study if kind in OWN else None)


def run_show(options: argparse.Namespace) -> Iterator[str]:
    """Show a result.

    Raises:
        ConfigError: if there is none of that name.
        FileError: after showing it, if one of its files is damaged or absent.
    """
    from cemlib.cli import shown
    from cemlib.files import FileError
    from cemlib.inspection import find_folder, read_result

    result = read_result(find_folder(options.run, lambda: plan_of(options)))
    yield shown.as_json(result) if options.json else shown.as_text(result, options.all)
    if result.faults:
        raise FileError("\n".join(result.faults))


def run_compare(options: argparse.Namespace) -> Iterator[str]:
    """Compare two defences.

    Raises:
        ConfigError: if there is no such defence, or both are the same.
    """
    from cemlib.cli import compared
    from cemlib.config import ConfigError
    from cemlib.report.paired import compare

    if options.first == options.second:
        raise ConfigError(f"compare: both are {options.first!r}; name two defences")
    first, second = (_side(options, name) for name in (options.first, options.second))
    found = compare(first, second)
    names = (options.first, options.second)
    yield compared.as_json(found, *names) if options.json else compared.as_text(found, *names)


def run_doctor(options: argparse.Namespace) -> Iterator[str]:
    """Check the machine, and what a study needs.

    Raises:
        ProblemsError: if something would stop a study.
    """
    from cemlib.cli import checked
    from cemlib.doctor.finding import Level, ProblemsError

    problems = 0
    for finding in checked.findings(options):
        problems += finding.level is Level.PROBLEM
        yield checked.line(finding)
    if problems:
        raise ProblemsError(f"{problems} problem{'s' if problems > 1 else ''} found")


def _side(options: argparse.Namespace, name: str) -> "Side":
    """The results of a defence, by its name in the study or by the folder of its runs."""
    from cemlib.report.paired import read_side

    if "/" in name:
        return read_side(name, *_records(Path(name)))
    plan: Plan = plan_of(options)
    attacks = [attack.metrics for attack in plan.attacks(name)]
    return read_side(name, [run.metrics for run in plan.runs(name)], attacks)


def _records(folder: Path) -> tuple[list[Path], list[Path]]:
    from cemlib.seal import RECORD

    runs = sorted(folder.glob("seed*"), key=lambda run: (len(run.name), run.name))
    attacks = [path for run in runs for path in sorted(run.glob(f"attacks/*/{RECORD}"))]
    return [run / RECORD for run in runs], attacks


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object, not text")
