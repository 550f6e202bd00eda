"""What a check found."""

from enum import Enum
from typing import NamedTuple


class Level(Enum):
    """How bad a finding is: a warning stops no study, a problem does."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """One line of the doctor's: what was looked at, what was found, and what to do about it."""

    level: Level
    subject: str
    found: str
    advice: str = ""


class ProblemsError(RuntimeError):
    """Some finding is a problem."""


def ok(subject: str, found: str) -> Finding:
    """Say that all is well."""
    return Finding(Level.OK, subject, found)


def warning(subject: str, found: str, advice: str) -> Finding:
    """Say that a study can be carried out, with less."""
    return Finding(Level.WARNING, subject, found, advice)


def problem(subject: str, found: str, advice: str) -> Finding:
    """Say that a study would stop."""
    return Finding(Level.PROBLEM, subject, found, advice)
