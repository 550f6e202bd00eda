"""Reading a configuration, with errors that name the key, what was found and what to do."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cemlib.config.common import AnyStudy
from cemlib.config.errors import ConfigError, validated
from cemlib.config.extending import changed, read_extended
from cemlib.config.federated import Federated
from cemlib.config.labelling import LabellingStudy
from cemlib.config.study import Study
from cemlib.config.sweeps import expanded

SPLIT = "split"  # the system of a study that names none
SYSTEMS: dict[str, type[AnyStudy]] = {SPLIT: Study, "pctc": LabellingStudy, "federated": Federated}
"""The configuration of each system's studies."""

_StudyT = TypeVar("_StudyT", bound=AnyStudy)


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
    return _of_kind(kind, load_any(path, changes), f"{path}: ")


def load_any(path: Path, changes: Sequence[str] = ()) -> AnyStudy:
    """Read a study of any system as `load` does."""
    raw = read_extended(path)
    if raw is None or isinstance(raw, Mapping):  # parse_any refuses anything else
        raw = changed(raw, changes)
    try:
        return parse_any(raw)
    except ConfigError as error:
        lines = str(error).splitlines()
        raise ConfigError("\n".join(f"{path}: {line}" for line in lines)) from error


def parse(raw: Any) -> Study:
    """Turn plain nested dicts into a checked `Study`, the members of its sweeps among its defences.

    Raises:
        ConfigError: one line per fault: the key, what was found, and the nearest right name.
    """
    return _of_kind(Study, parse_any(raw))


def parse_any(raw: Any) -> AnyStudy:
    """Turn plain nested dicts into a checked study of the system that they name, or of `split`."""
    if not isinstance(raw, Mapping):
        raise ConfigError(f"expected a mapping of keys, found {type(raw).__name__}")
    system = raw.get("system", SPLIT)
    if not isinstance(system, str) or system not in SYSTEMS:
        raise ConfigError(f"system: {system!r} is not one of {', '.join(SYSTEMS)}")
    kind = SYSTEMS[system]
    return validated(kind, expanded(raw) if kind is Study else raw)


def _of_kind(kind: type[_StudyT], study: AnyStudy, place: str = "") -> _StudyT:
    if not isinstance(study, kind):
        raise ConfigError(
            f"{place}system: this is a study of {study.system}; give it to Snakemake or"
            " `cemlib run`"
        )
    return study
