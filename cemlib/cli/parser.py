"""The command line's parser: every subcommand with its options."""

import argparse
import textwrap

from cemlib import __version__
from cemlib.cli import commands as study
from cemlib.cli.completion import SHELLS, PrintCompletion, subcommands
from cemlib.cli.estimate import run_estimate
from cemlib.cli.examples import EXAMPLES
from cemlib.cli.exits import DIVERGED_NOTE, EXIT_CODES
from cemlib.cli.joined import add_join
from cemlib.cli.look import add_compare, add_doctor, add_list, add_show
from cemlib.cli.options import (
    Command,
    Commands,
    add_command,
    add_config,
    add_device,
    add_slots,
    add_uri,
)
from cemlib.cli.search import add_match
from cemlib.cli.systems import add_federated, add_pctc

COMPLETION = 'Completion by the shell: eval "$(cemlib --print-completion bash)"'
WIDTH = 79


def build_parser() -> argparse.ArgumentParser:
    """The parser; the options of a subcommand carry its function as `command`."""
    parser = argparse.ArgumentParser(
        prog="cemlib",
        description="Train defended split classifiers, attack them, and report utility against"
        " privacy. Every command reads one study's configuration, works on all of the study unless"
        " narrowed, and prints the files it wrote. Snakemake runs the same commands as jobs.",
    )
    parser.add_argument(
        "--version", action="version", version=f"cemlib {__version__}", help="print the version"
    )
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        metavar="SHELL",
        help=f"print a script that completes commands, options and files: {', '.join(SHELLS)}",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add(commands, "prepare", study.run_prepare, "read, check, split and store the images")
    _add_jobs(commands)
    _add_readers(commands)
    _add_run(commands)
    estimate = _add(
        commands, "estimate", run_estimate, "say how much time and memory a study will take"
    )
    add_device(estimate)
    add_slots(estimate)
    _add(
        commands,
        "publish",
        study.run_publish,
        "copy a finished study's tables under results/published",
    )
    add_match(commands)
    add_list(commands)
    add_show(commands)
    add_compare(commands)
    add_join(commands)
    add_doctor(commands)
    add_pctc(commands)
    add_federated(commands)
    _lay_out(parser)
    return parser


def _lay_out(parser: argparse.ArgumentParser) -> None:
    """Give `--help` its examples and exit codes, on lines of their own."""
    codes = [f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()]
    hanging = (textwrap.fill(line, WIDTH, subsequent_indent=" " * 7) for line in codes)
    parser.epilog = "\n".join(["exit codes:", *hanging, "", COMPLETION])
    for each in (parser, *subcommands(parser).values()):
        each.formatter_class = argparse.RawDescriptionHelpFormatter
        each.description = textwrap.fill(each.description or "", WIDTH)
    for name, command in subcommands(parser).items():
        examples = "\n".join(["examples:", *(f"  {line}" for line in EXAMPLES[name])])
        note = [textwrap.fill(command.epilog, WIDTH)] if command.epilog else []
        command.epilog = "\n\n".join([*note, examples])


def _add_jobs(commands: Commands) -> None:
    train = _add(commands, "train", study.run_train, "train defended classifiers, and the judge")
    attack = _add(
        commands, "attack", study.run_attack, "reconstruct images from a run's released features"
    )
    for parser in (train, attack):
        parser.epilog = DIVERGED_NOTE
        _add_defence(parser)
        parser.add_argument("--seed", type=int, metavar="N", help="only this seed")
        add_device(parser)
    attack.add_argument(
        "--attack", action="append", metavar="NAME", help="only this attack; may be repeated"
    )


def _add_readers(commands: Commands) -> None:
    report = _add(commands, "report", study.run_report, "write tables and figures of finished jobs")
    _add_defence(report)
    report.add_argument(
        "--only",
        choices=("tables", "figures", "cluster_course", "surrogates", "page"),
        help="only this part",
    )
    track = _add(commands, "track", study.run_track, "upload finished jobs to MLflow")
    _add_defence(track)
    add_uri(track)
    track.add_argument(
        "--watch", action="store_true", help="keep uploading curves until every job has finished"
    )


def _add_run(commands: Commands) -> None:
    parser = _add(
        commands,
        "run",
        study.run_whole_study,
        "all jobs of a study of any system but track, without Snakemake",
    )
    parser.epilog = DIVERGED_NOTE
    add_device(parser)
    add_slots(parser)


def _add_defence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--defence", metavar="NAME", help="only this defence")


def _add(commands: Commands, name: str, run: Command, text: str) -> argparse.ArgumentParser:
    parser = add_command(commands, name, text, run)
    add_config(parser)
    return parser
