"""Command line: one subcommand per kind of job, each reading one configuration file.

Nothing heavy is imported before the subcommand is known, so that `--help` answers at once.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cemlib.cli.parser import build_parser
from cemlib.environment import set_for_jobs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Returns:
        0; 1 if jobs of a whole study failed; 2 after one line per fault of the user's input; 130
        after Ctrl-C.
    """
    options = build_parser().parse_args(arguments)
    set_for_jobs()
    command: Callable[[argparse.Namespace], Iterator[Path | str]] = options.command
    try:
        for written in command(options):
            print(written, flush=True)
    except _failed_jobs() as error:
        return _complain(error, 1)
    except _user_errors() as error:
        return _complain(error, 2)
    except KeyboardInterrupt:
        print("interrupted: run the same command again to go on", file=sys.stderr)
        return 130
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
