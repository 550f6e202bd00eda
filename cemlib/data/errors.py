"""The room's one exception, and paths in messages.

The names in a stranger's image folder may hold any bytes but two.
"""

from pathlib import Path


class DataError(ValueError):
    """The images cannot be used; the message names the place, what was found and what to do."""


def shown(path: Path | str) -> str:
    r"""Return a path or name as one printable line: no line breaks, no codes for the terminal.

    >>> shown("a\nb")
    'a\\nb'
    """
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(path))
    return "".join(escaped)


def is_text(name: str) -> bool:
    """Return whether a file's name can be written down as UTF-8."""
    return not any("\ud800" <= sign <= "\udfff" for sign in name)
