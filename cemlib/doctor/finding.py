"""What a check found."""

from enum import Enum
from typing import NamedTuple


class Level(Enum):
    """How bad a finding is: a warning stops no study, a problem does."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


OK, WARNING, PROBLEM = Level


class Finding(NamedTuple):
    """One line of the doctor's: what was looked at, what was found, and what to do about it."""

    level: Level
    subject: str
    found: str
    advice: str = ""


class ProblemsError(RuntimeError):
    """Some finding is a problem."""
