"""The lines of `cemlib doctor`."""

import argparse
from collections.abc import Iterator

from cemlib.cli.options import plan_of
from cemlib.config import ConfigError
from cemlib.doctor.finding import Finding, problem
from cemlib.doctor.machine import machine
from cemlib.doctor.study import places
from cemlib.plan import Plan


def findings(options: argparse.Namespace) -> Iterator[Finding]:
    """Of the machine, then of the study if one is named."""
    yield from machine()
    plan: Plan | None = None
    if options.config is not None:
        try:
            plan = plan_of(options)
        except ConfigError as error:  # told like the other problems, and the rest is looked at
            for fault in str(error).splitlines():
                yield problem("configuration", fault, "mend it")
    yield from places(options.uri, plan)


def line(finding: Finding) -> str:
    """One line for a finding."""
    advice = f"; {finding.advice}" if finding.advice else ""
    return f"{finding.level.value:<8} {finding.subject:<16} {finding.found}{advice}"
