"""Command line: one subcommand per kind of job, each reading one configuration file.

Nothing heavy is imported before the subcommand is known, so that `--help` answers at once.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cemlib.cli import exits
from cemlib.cli.exits import FailedResultsError, ProblemsError
from cemlib.cli.parser import build_parser
from cemlib.study.environment import exit_code, farewell, set_for_jobs, sigterm_raises


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Returns:
        One of `cemlib.cli.exits.EXIT_CODES`.
    """
    options = build_parser().parse_args(arguments)
    set_for_jobs()
    with sigterm_raises():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    command: Callable[[argparse.Namespace], Iterator[Path | str]] = options.command
    try:
        for written in command(options):
            if not _say(written):
                return exits.CLOSED
    except FailedResultsError:
        return exits.DIVERGED
    except _failures() as error:
        return _complain(error, exits.ERROR)
    except _user_errors() as error:
        return _complain(error, exits.USAGE)
    except KeyboardInterrupt as interruption:
        print(farewell(interruption), file=sys.stderr)
        return exit_code(interruption)
    return exits.OK


def _say(written: Path | str) -> bool:
    """Print a line; return whether the output is still open."""
    try:
        print(written, flush=True)
    except BrokenPipeError:
        # Python flushes the stream at its end, which must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _complain(error: Exception, code: int) -> int:
    print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
    return code


# Imported only when there is an exception to compare.
def _failures() -> tuple[type[Exception], ...]:
    from cemlib.study.schedule import StudyError

    return (StudyError, ProblemsError)


def _user_errors() -> tuple[type[Exception], ...]:
    from cemlib.study.process import user_errors

    return user_errors()
