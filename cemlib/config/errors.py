"""The one error of a configuration, and the name that was perhaps meant."""

import difflib
from collections.abc import Iterable


class ConfigError(ValueError):
    """The configuration cannot be used; one line per fault."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest known word, or nothing.

    >>> nearest("clusterin", ["clustering", "gated"])
    "; did you mean 'clustering'?"
    """
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
