"""What may stand in a configuration at all, before it is known what each key means.

Values come from files of strangers, from Snakemake's command line and from programs. Whatever has
no place in JSON, and whatever could stall a later step or confuse a path, a log or a terminal, is
refused here, with its key.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from cemlib.config.errors import ConfigError

MAX_DEPTH = 20
MAX_VALUES = 10_000  # aliases counted as often as they are used
MAX_TEXT = 4096  # no path is longer
MAX_INTEGER = 2**63 - 1
BREAKING = ("Cc", "Cs", "Zl", "Zp")  # control, half a surrogate pair, line and paragraph separators


def check_plain(raw: Any) -> None:
    """Refuse what is no tree of plain values of a sensible size.

    Raises:
        ConfigError: names the key.
    """
    for count, (key, value) in enumerate(_walk("configuration", raw, 0)):
        fault = _fault(value)
        if count > MAX_VALUES:
            fault = f"more than {MAX_VALUES} values so far, too many for a configuration"
        if fault is not None:
            raise ConfigError(f"{key}: {fault}")


def _walk(key: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Every value with its dotted key, a mapping's keys among the values."""
    if depth > MAX_DEPTH:
        raise ConfigError(f"{key}: nested more than {MAX_DEPTH} deep (or contains itself)")
    yield key, value
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield key, _as_key(key, name)
            yield from _walk(_join(key, name, depth), inner, depth + 1)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _walk(_join(key, str(place), depth), inner, depth + 1)


def _as_key(key: str, name: Any) -> str:
    if isinstance(name, str):
        return name
    raise ConfigError(f"{key}: expected text as a key, found {name!r:.60}; put it in quotes")


def _join(key: str, name: str, depth: int) -> str:
    return f"{key}.{name}" if depth else name


def _fault(value: Any) -> str | None:
    if isinstance(value, str):
        return _text_fault(value)
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return f"expected a number of at most {MAX_INTEGER}, found one of {value.bit_length()} bits"
    if value is None or isinstance(value, int | float | Mapping | list | tuple):
        return None
    return f"a {type(value).__name__} has no place in a configuration, found {value!r:.60}"


def _text_fault(text: str) -> str | None:
    if len(text) > MAX_TEXT:
        return f"text of {len(text)} characters, at most {MAX_TEXT} are expected: {text[:40]!r}..."
    odd = next((sign for sign in text if unicodedata.category(sign) in BREAKING), None)
    return None if odd is None else f"the character {odd!r} cannot stand in {text[:60]!r}"
