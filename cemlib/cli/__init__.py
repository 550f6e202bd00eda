"""The command line: read the arguments, run one command, and turn errors into exit codes.

Nothing heavy is imported before the subcommand is known, so that `--help` answers at once.
"""

import argparse
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from argcomplete import autocomplete

from cemlib import __version__
from cemlib.cli import exits
from cemlib.cli.commands import ABOUT, COMMANDS, GROUPS
from cemlib.cli.exits import EXIT_CODES, FailedResultsError, ProblemsError
from cemlib.study.environment import exit_code, farewell, set_for_jobs, sigterm_raises

WIDTH = 79
COMPLETION = 'Completion by the shell: eval "$(register-python-argcomplete cemlib)"'


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return one of `cemlib.cli.exits.EXIT_CODES`."""
    parser = parsers()["cemlib"]
    autocomplete(parser)
    options = parser.parse_args(arguments)
    set_for_jobs()
    with sigterm_raises():
        return _run(options)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of `cemlib`, and of every command by its name.

    The options of a command carry its function as `command`.
    """
    codes = [f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()]
    hanging = (textwrap.fill(line, WIDTH, subsequent_indent=" " * 7) for line in codes)
    epilog = "\n".join(["exit codes:", *hanging, "", COMPLETION])
    parser = argparse.ArgumentParser(prog="cemlib", **_texts(ABOUT, epilog))
    version = f"cemlib {__version__}"
    parser.add_argument("--version", action="version", version=version, help="print the version")
    found = {"cemlib": parser}
    commands_of: dict[str, Any] = {"title": "commands", "required": True, "metavar": "COMMAND"}
    groups = {"": (commands := parser.add_subparsers(**commands_of))}
    for name, command in COMMANDS.items():
        group, _, own = name.rpartition(" ")
        if group not in groups:
            texts = _texts(f"{GROUPS[group].capitalize()}.", "")
            found[group] = commands.add_parser(group, help=GROUPS[group], **texts)
            groups[group] = found[group].add_subparsers(**commands_of)
        epilog = "\n".join(["examples:", *(f"  {line}" for line in command.examples)])
        texts = _texts(command.description, epilog)
        found[name] = groups[group].add_parser(own, help=command.phrase, **texts)
        for option in command.options:
            action = found[name].add_argument(*option.flags, **option.settings)
            if option.completer:
                vars(action)["completer"] = option.completer
        found[name].set_defaults(command=command.run)
    return found


def _texts(description: str, epilog: str) -> dict[str, Any]:
    """Return the arguments of a parser whose help is the same in every terminal."""
    filled = "\n\n".join(textwrap.fill(part, WIDTH) for part in description.split("\n\n"))
    formatter = partial(argparse.RawDescriptionHelpFormatter, width=WIDTH)
    return {"description": filled, "epilog": epilog, "formatter_class": formatter}


def _run(options: argparse.Namespace) -> int:
    command: Callable[[argparse.Namespace], Iterator[Path | str]] = options.command
    try:
        for written in command(options):
            if not _say(written):
                return exits.CLOSED
    except KeyboardInterrupt as interruption:
        print(farewell(interruption), file=sys.stderr)
        return exit_code(interruption)
    except FailedResultsError:
        return exits.DIVERGED
    except Exception as error:
        code = _code(error)
        if code is None:
            raise
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return code
    return exits.OK


def _code(error: Exception) -> int | None:
    """Return the exit code of an error; None if it is a bug."""
    from cemlib.labelling.errors import LabellingError
    from cemlib.study.schedule import StudyError
    from cemlib.study.workers import USER_ERRORS

    if isinstance(error, StudyError | ProblemsError | LabellingError):
        return exits.ERROR
    return exits.USAGE if isinstance(error, USER_ERRORS) else None


def _say(written: Path | str) -> bool:
    """Print a line; return whether the output is still open."""
    try:
        print(written, flush=True)
    except BrokenPipeError:
        # Python flushes the stream at its end, which must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
