"""Paths in messages: the names in a stranger's image folder may hold any bytes but two."""

from pathlib import Path


def shown(path: Path | str) -> str:
    r"""A path or name as one printable line: no line breaks, no codes for the terminal.

    >>> shown("a\nb")
    'a\\nb'
    """
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(path))
    return "".join(escaped)


def is_text(name: str) -> bool:
    """Whether a file's name can be written down as UTF-8."""
    return not any("\ud800" <= sign <= "\udfff" for sign in name)
