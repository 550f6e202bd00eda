"""The parser of the command line, made of the table of commands."""

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path

import shtab

from cemlib.cli.commands import ABOUT, COMMANDS, GENERAL
from cemlib.cli.exits import EXIT_CODES
from cemlib.cli.options import Option

WIDTH = 79
COMPLETION = 'Completion by the shell: eval "$(cemlib --print-completion bash)"'


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; the options of a command carry its function as `command`."""
    codes = [f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()]
    hanging = (textwrap.fill(line, WIDTH, subsequent_indent=" " * 7) for line in codes)
    parser = argparse.ArgumentParser(
        prog="cemlib",
        description=_filled(ABOUT),
        epilog="\n".join(["exit codes:", *hanging, "", COMPLETION]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add(parser, GENERAL)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        each = commands.add_parser(
            name,
            help=command.phrase,
            description=_filled(command.description),
            epilog="\n".join(["examples:", *(f"  {line}" for line in command.examples)]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _add(each, command.options)
        each.set_defaults(command=command.run)
    return parser


def _add(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    for option in options:
        action = parser.add_argument(*option.flags, **option.settings)
        if option.settings.get("type") is Path:
            vars(action)["complete"] = shtab.FILE


def _filled(text: str) -> str:
    """Return paragraphs with lines of at most `WIDTH` characters."""
    return "\n\n".join(textwrap.fill(part, WIDTH) for part in text.split("\n\n"))
