"""The parser of the command line, made of the table of commands."""

import argparse
import textwrap
from collections.abc import Sequence
from functools import partial
from typing import Any

from cemlib.cli.commands import ABOUT, COMMANDS, GENERAL, GROUPS
from cemlib.cli.exits import EXIT_CODES
from cemlib.cli.options import Option

WIDTH = 79
COMPLETION = 'Completion by the shell: eval "$(register-python-argcomplete cemlib)"'


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; the options of a command carry its function as `command`."""
    return parsers()["cemlib"]


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of `cemlib`, and of every command by its name."""
    codes = [f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()]
    hanging = (textwrap.fill(line, WIDTH, subsequent_indent=" " * 7) for line in codes)
    epilog = "\n".join(["exit codes:", *hanging, "", COMPLETION])
    parser = argparse.ArgumentParser(prog="cemlib", **_texts(ABOUT, epilog))
    _add(parser, GENERAL)
    found = {"cemlib": parser}
    commands_of: dict[str, Any] = {"title": "commands", "required": True, "metavar": "COMMAND"}
    groups = {"": (commands := parser.add_subparsers(**commands_of))}
    for name, command in COMMANDS.items():
        group, _, own = name.rpartition(" ")
        if group not in groups:
            found[group] = commands.add_parser(
                group, help=GROUPS[group], **_texts(GROUPS[group], "")
            )
            groups[group] = found[group].add_subparsers(**commands_of)
        epilog = "\n".join(["examples:", *(f"  {line}" for line in command.examples)])
        texts = _texts(command.description, epilog)
        found[name] = groups[group].add_parser(own, help=command.phrase, **texts)
        _add(found[name], command.options)
        found[name].set_defaults(command=command.run)
    return found


def _texts(description: str, epilog: str) -> dict[str, Any]:
    """Return the arguments of a parser whose help is the same in every terminal."""
    filled = "\n\n".join(textwrap.fill(part, WIDTH) for part in description.split("\n\n"))
    formatter = partial(argparse.RawDescriptionHelpFormatter, width=WIDTH)
    return {"description": filled, "epilog": epilog, "formatter_class": formatter}


def _add(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    for option in options:
        action = parser.add_argument(*option.flags, **option.settings)
        if option.completer:
            vars(action)["completer"] = option.completer
