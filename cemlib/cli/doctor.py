"""The command `doctor`."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cemlib import __version__
from cemlib.cli.exits import ProblemsError

if TYPE_CHECKING:
    from cemlib.study.machine import Finding


def doctor(options: argparse.Namespace) -> Iterator[str]:
    """Check this machine: versions, devices, memory, data, disk, MLflow store.

    Raises:
        ProblemsError: if something would stop a study.
    """
    from cemlib.study.machine import PROBLEM

    problems = 0
    for level, subject, found, advice in _findings(options):
        problems += level is PROBLEM
        yield f"{level.value:<8} {subject:<16} {found}{advice and f'; {advice}'}"
    if problems:
        raise ProblemsError(f"{problems} problem{'s' if problems > 1 else ''} found")


def _findings(options: argparse.Namespace) -> Iterator["Finding"]:
    """Yield the findings about the machine, then those about the study if one is given."""
    from cemlib.config import ConfigError
    from cemlib.study.machine import PROBLEM, Finding, machine
    from cemlib.study.places import places
    from cemlib.study.systems import read_study

    yield from machine(__version__)
    plan = None
    if options.config is not None:
        try:
            plan, _ = read_study(options.config, options.set)
        except ConfigError as error:  # a problem like the others; the checks go on
            for fault in str(error).splitlines():
                yield Finding(PROBLEM, "configuration", fault, "correct it")
    yield from places(options.uri, plan)
