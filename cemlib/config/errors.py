"""The check of a section of the configuration, and its error: each fault explained by its key."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cemlib.config.base import Section, keys_of

_EXPONENTIAL = re.compile(r"[-+.\d]+[eE][-+]?\d+")  # such as 1e-3, which YAML reads as text
SWEPT = "swept"  # type of a fault in a sweep; its message begins with a key below the fault's
_S = TypeVar("_S", bound=Section)


class ConfigError(ValueError):
    """The configuration cannot be used; one line per fault."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest known word, or nothing.

    >>> nearest("clusterin", ["clustering", "gated"])
    "; did you mean 'clustering'?"
    """
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def plain(value: Any) -> Any:
    """Return a mapping as a dict, a NumPy or torch value as Python's, and anything else as text."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)


def validated(kind: type[_S], raw: Mapping[str, Any]) -> _S:
    """Turn nested dicts into a checked section; raise ConfigError with one line per fault."""
    try:
        return kind.model_validate_json(json.dumps(raw, default=plain))
    except ValidationError as error:
        every = error.errors(include_url=False)
        # If an element of a list is faulty, pydantic also reports the list without it as too short.
        lines = [
            explained(fault, raw, kind)
            for fault in every
            if fault["type"] != "too_short" or len(fault["input"]) < fault["ctx"]["min_length"]
        ]
        raise ConfigError("\n".join(lines)) from error


def explained(fault: ErrorDetails, raw: Any, section: type[Section]) -> str:
    """Return one line about a fault: its key, what was found, and the nearest right name."""
    is_key = fault["type"] in ("missing", "extra_forbidden")
    key, found = _key(fault["loc"], raw, is_key), fault["input"]
    message = fault["msg"].removeprefix("Value error, ")
    if not fault["loc"]:  # a check across sections, whose message names its keys
        return message
    match fault["type"]:
        case kind if kind == SWEPT:
            return f"{key}.{message}"
        case "extra_forbidden":
            return f"{key}: unknown key{_hint(str(fault['loc'][-1]), keys_of(section))}"
        case "missing":
            return f"{key}: missing; add it"
        case "union_tag_not_found":
            return f"{key}.{_quoted(fault['ctx']['discriminator'])[0]}: missing; add it"
        case "union_tag_invalid":
            tag = str(fault["ctx"]["tag"])
            known = _quoted(fault["ctx"]["expected_tags"])
            return f"{key}: unknown name {tag!r}{nearest(tag, known)} (known: {', '.join(known)})"
        case "literal_error":
            expected = fault["ctx"]["expected"]
            known = _quoted(expected) or expected.split(" or ")  # numbers are not quoted
            hint = nearest(str(found), known) if _quoted(expected) else ""
            return f"{key}: {found!r} is not one of {', '.join(known)}{hint}"
        case "float_type" if isinstance(found, str) and _EXPONENTIAL.fullmatch(found):
            return (
                f"{key}: expected a number, found the text {found!r} (YAML needs 1.0e-3, not 1e-3)"
            )
    shown = repr(found)
    return f"{key}: {message}, found {shown if len(shown) < 60 else f'{shown[:57]}...'}"


def _key(location: tuple[int | str, ...], raw: Any, is_key: bool) -> str:
    """Return the dotted path in the user's file, without pydantic's own parts, such as tags.

    The last part is pydantic's own too, unless it `is_key` or it is in the file.
    """
    parts, at = [], raw
    for index, part in enumerate(location):
        listed = isinstance(part, int) and isinstance(at, list) and part < len(at)
        inside = listed or (isinstance(at, Mapping) and part in at)
        if inside or isinstance(part, int) or (is_key and index == len(location) - 1):
            parts.append(str(part))
        at = at[part] if inside else at
    return ".".join(parts)


def _hint(unknown: str, names: set[str]) -> str:
    if unknown in names:
        others = nearest(unknown, names - {unknown})
        return f" here; it belongs to another section (see config/README.md){others}"
    return nearest(unknown, names) or "; remove it"


def _quoted(text: str) -> list[str]:
    return re.findall(r"'([^']*)'", text)
