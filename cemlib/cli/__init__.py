"""Command line: one subcommand per kind of job, each reading one configuration file.

Nothing heavy is imported before the subcommand is known, so that `--help` answers at once.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cemlib.cli.parser import build_parser
from cemlib.environment import set_for_jobs
from cemlib.errors import FailedResultsError
from cemlib.interrupt import exit_code, farewell, sigterm_raises


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Returns:
        0; 1 if jobs of a whole study failed; 2 after one line per fault of the user's input; 3 if
        all was carried out but some result is a failed one, as a diverged training is; 130
        after Ctrl-C and 143 after SIGTERM, with a line that says how to go on.
    """
    options = build_parser().parse_args(arguments)
    set_for_jobs()
    with sigterm_raises():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    command: Callable[[argparse.Namespace], Iterator[Path | str]] = options.command
    try:
        for written in command(options):
            print(written, flush=True)
    except FailedResultsError:
        return 3
    except _failed_jobs() as error:
        return _complain(error, 1)
    except _user_errors() as error:
        return _complain(error, 2)
    except KeyboardInterrupt as interruption:
        print(farewell(interruption), file=sys.stderr)
        return exit_code(interruption)
    return 0


def _complain(error: Exception, code: int) -> int:
    print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
    return code


# Imported when an exception is there to be compared, and not before.
def _failed_jobs() -> type[Exception]:
    from cemlib.runner import StudyError

    return StudyError


def _user_errors() -> tuple[type[Exception], ...]:
    from cemlib.jobs import user_errors

    return user_errors()
