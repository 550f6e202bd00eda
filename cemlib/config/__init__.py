"""The configuration: its keys, their defaults, and the settings that each job depends on."""

from cemlib.config.errors import ConfigError
from cemlib.config.load import load, parse
from cemlib.config.study import Study

__all__ = ["ConfigError", "Study", "load", "parse"]
