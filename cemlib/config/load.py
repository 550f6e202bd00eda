"""Reading a configuration, with errors that name the key, what was found and what to do."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cemlib.config.base import Section, keys_of
from cemlib.config.common import AnyStudy
from cemlib.config.errors import ConfigError, nearest
from cemlib.config.extending import changed, read_extended
from cemlib.config.federated import Federated
from cemlib.config.labelling import LabellingStudy
from cemlib.config.study import Study
from cemlib.config.sweeps import SWEPT, expanded

SPLIT = "split"  # of a study that names no system
SYSTEMS: dict[str, type[AnyStudy]] = {
    SPLIT: Study,
    "pctc": LabellingStudy,
    "federated": Federated,
}
"""The configuration of each system's studies."""

_S = TypeVar("_S", bound=Section)
_StudyT = TypeVar("_StudyT", bound=AnyStudy)
_T = TypeVar("_T")


def load(path: Path, changes: Sequence[str] = ()) -> Study:
    """Read a study of split inference from a YAML (or JSON) file, and from those that it extends.

    Args:
        path: The file.
        changes: Values that replace those of the file, such as `train.lr=0.01`.

    Raises:
        ConfigError: if a file cannot be read (see `read_extended`), or a key is wrong or unknown.
    """
    return load_as(Study, path, changes)


def load_as(kind: type[_StudyT], path: Path, changes: Sequence[str] = ()) -> _StudyT:
    """Read a study of one system as `load` does."""
    return _naming_file(path, changes, partial(parse_as, kind))


def load_any(path: Path, changes: Sequence[str] = ()) -> AnyStudy:
    """Read a study of any system as `load` does."""
    return _naming_file(path, changes, parse_any)


def parse(raw: Any) -> Study:
    """Turn plain nested dicts into a checked `Study`, the members of its sweeps among its defences.

    Raises:
        ConfigError: one line per fault: the key, what was found, and the nearest right name.
    """
    return parse_as(Study, raw)


def parse_any(raw: Any) -> AnyStudy:
    """Turn plain nested dicts into a checked study of whichever system they name."""
    return parse_as(SYSTEMS[system_of(raw)], raw)


def parse_as(kind: type[_StudyT], raw: Any) -> _StudyT:
    """Turn plain nested dicts into a checked study of one system.

    Raises:
        ConfigError: one line per fault; a study of another system is none of this kind, before its
            keys are called unknown one by one.
    """
    system = system_of(raw)
    if SYSTEMS[system] is not kind:
        raise ConfigError(
            f"system: this is a study of {system}; give it to Snakemake or `cemlib run`"
        )
    study = validated(kind, raw, expanded if kind is Study else None)
    _check_paths(study.paths())
    return study


def system_of(raw: Any) -> str:
    """Return which system a configuration is about; a study of split inference need not say so.

    Raises:
        ConfigError: if there is no such system.
    """
    found = raw.get("system", SPLIT) if isinstance(raw, Mapping) else SPLIT
    if found not in SYSTEMS:
        raise ConfigError(f"system: {found!r} is not one of {', '.join(SYSTEMS)}")
    return str(found)


def _naming_file(path: Path, changes: Sequence[str], parse: Callable[[Any], _T]) -> _T:
    raw = changed(read_extended(path), changes)
    try:
        return parse(raw)
    except ConfigError as error:
        lines = str(error).splitlines()
        raise ConfigError("\n".join(f"{path}: {line}" for line in lines)) from error


def validated(
    kind: type[_S], raw: Any, expand: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
) -> _S:
    """Turn plain nested dicts into a checked section.

    Args:
        kind: the section.
        raw: the values.
        expand: what writes shorthands out, before the check.

    Raises:
        ConfigError: one line per fault: the key, what was found, and the nearest right name.
    """
    if not isinstance(raw, Mapping):
        raise ConfigError(f"expected a mapping of keys, found {type(raw).__name__}")
    plain = raw if expand is None else expand(raw)
    try:
        return kind.model_validate_json(json.dumps(plain, default=str))  # YAML has dates: text
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise ConfigError("\n".join(_explain(fault, plain, kind) for fault in faults)) from error


def _check_paths(paths: Mapping[str, str | None]) -> None:
    """Refuse paths that would mean something else to Snakemake or to a shell.

    Raises:
        ConfigError: names the key.
    """
    for key, path in paths.items():
        if path is not None and set(path) & set("{}"):
            raise ConfigError(
                f"{key}: braces are wildcards to Snakemake, found {path!r}; rename it"
            )
    results = paths["results"] or ""
    if results.startswith("-"):
        raise ConfigError(f"results: {results!r} would be taken for an option; rename it")


def _explain(fault: ErrorDetails, raw: Any, section: type[Section]) -> str:
    key, found = _key(fault["loc"], raw), fault["input"]
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
        case "union_tag_invalid":
            tag = str(fault["ctx"]["tag"])
            known = _quoted(fault["ctx"]["expected_tags"])
            return f"{key}: unknown name {tag!r}{nearest(tag, known)} (known: {', '.join(known)})"
        case "literal_error":
            known = _quoted(fault["ctx"]["expected"])
            hint = nearest(str(found), known)
            return f"{key}: {found!r} is not one of {', '.join(known)}{hint}"
        case "float_type" if isinstance(found, str):
            return (
                f"{key}: expected a number, found the text {found!r} (YAML needs 1.0e-3, not 1e-3)"
            )
    return f"{key}: {message}, found {_short(found)}"


def _key(location: tuple[int | str, ...], raw: Any) -> str:
    """Return the dotted path in the user's file, without pydantic's union tags."""
    parts, at = [], raw
    for index, part in enumerate(location):
        inside = isinstance(at, Mapping) and part in at
        if inside or index == len(location) - 1 or isinstance(part, int):
            parts.append(str(part))
        at = at[part] if inside else at
    return ".".join(parts) or "configuration"


def _hint(unknown: str, names: set[str]) -> str:
    if unknown in names:
        others = nearest(unknown, names - {unknown})
        return f" here; it belongs to another section (see config/README.md){others}"
    return nearest(unknown, names) or "; remove it"


def _quoted(text: str) -> list[str]:
    return re.findall(r"'([^']*)'", text)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."
