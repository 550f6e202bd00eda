"""The exception for images that cannot be used, and paths in messages.

File names in a user's image folder may hold any bytes but two.
"""

from pathlib import Path

from cemlib.records.files import FileError


class DataError(FileError):
    """The images cannot be used; the message names the place, what was found and what to do."""


def shown(path: Path | str) -> str:
    r"""Return a path or name as one printable line, without line breaks or terminal codes.

    >>> shown("a\nb")
    'a\\nb'
    """
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(path))
    return "".join(escaped)
