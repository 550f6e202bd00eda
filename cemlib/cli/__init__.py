"""Command line: one subcommand per kind of job, each reading one configuration file.

Nothing heavy is imported before the subcommand is known, so that `--help` answers at once.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from argcomplete import autocomplete

from cemlib.cli import exits
from cemlib.cli.exits import FailedResultsError, ProblemsError
from cemlib.cli.parser import build_parser
from cemlib.study.environment import exit_code, farewell, set_for_jobs, sigterm_raises


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return one of `cemlib.cli.exits.EXIT_CODES`."""
    parser = build_parser()
    autocomplete(parser)
    options = parser.parse_args(arguments)
    set_for_jobs()
    with sigterm_raises():
        return _run(options)


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
    from cemlib.study.process import USER_ERRORS
    from cemlib.study.schedule import StudyError

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
