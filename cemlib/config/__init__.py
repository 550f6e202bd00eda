"""The configuration: what may be set, its defaults, and which job depends on what."""

from cemlib.config.errors import ConfigError
from cemlib.config.load import load, parse
from cemlib.config.study import Study

__all__ = ["ConfigError", "Study", "load", "parse"]
