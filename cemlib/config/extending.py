"""Reading configuration files; one that extends others contains only the differences.

`extends: other.yaml` at the top of a file names another file by its path from there; of a list of
files, each is merged into those before it. The file itself is then merged into the result as a JSON
Merge Patch (RFC 7396): mappings key by key, `null` removes a key, and any other value, a list too,
replaces the value before. The default of every key that may be `null` is `null`, so removing a key
and setting it to `null` are the same.
"""

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, ScalarNode

from cemlib.config.errors import ConfigError

EXTENDS = "extends"


def read(path: Path) -> Any:
    """Read the values of a YAML (or JSON) file.

    Raises:
        ConfigError: if the file is missing, is neither YAML nor JSON, or gives a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such configuration file") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file in UTF-8 ({error}); save it as one") from error
    return from_text(text, str(path), "JSON" if path.suffix == ".json" else "YAML")


def from_text(text: str, place: str, kind: str = "YAML") -> Any:
    """Read the values of a text; `place` names it in messages.

    Raises:
        ConfigError: if it is not YAML or JSON as `kind` says, or gives a key twice.
    """
    try:
        if kind == "JSON":  # YAML would read 1e-06 as text
            return json.loads(text, object_pairs_hook=_distinct)
        values = yaml.load(text, Loader=_Loader)
        json.dumps(values, default=str)  # a ValueError where an alias makes a value contain itself
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{place}: not a {kind} file: {' '.join(str(error).split())}") from error
    return values


def read_extended(path: Path, chain: tuple[Path, ...] = ()) -> Any:
    """Read the values of a file, and of those that it extends, without the key `extends`.

    `chain` holds the files that led to it, each extending the next.

    Raises:
        ConfigError: as `read` does for each file; if one extends itself, through others or not.
    """
    raw = read(path)
    if not isinstance(raw, dict) or EXTENDS not in raw:
        return raw
    below: Any = {}
    chain = (*chain, path.resolve())
    for name in _names(path, raw.pop(EXTENDS)):
        found = read_extended(_other(path, name, chain), chain)
        if not isinstance(found, Mapping):
            raise ConfigError(f"{path}: {EXTENDS}: {name!r} holds no mapping of keys")
        below = merged(below, found)
    return merged(below, raw)


def merged(below: Any, above: Any) -> Any:
    """Return one configuration with another merged into it, whose values win (RFC 7396).

    >>> merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": 3}, "d": [4]})
    {'a': {'c': 2, 'e': 3}, 'd': [4]}
    """
    if not isinstance(above, Mapping):
        return above
    result = dict(below) if isinstance(below, Mapping) else {}
    for key, value in above.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def changed(raw: Any, changes: Sequence[str], option: str = "--set") -> Any:
    """Return a configuration with changes merged into it, each a dotted key and YAML: `KEY=VALUE`.

    Raises:
        ConfigError: if a change has another form; the message names the `option` of the changes.

    >>> changed({"train": {"epochs": 2}}, ["train.lr=0.01", "seeds=[0, 1]"])
    {'train': {'epochs': 2, 'lr': 0.01}, 'seeds': [0, 1]}
    """
    for change in changes:
        key, sign, text = change.partition("=")
        if not sign or not all(key.split(".")):
            raise ConfigError(f"{option} {change}: expected KEY=VALUE, such as train.lr=0.01")
        if not text.strip():
            raise ConfigError(f"{option} {change}: there is no value; write null for the default")
        value = from_text(text, f"{option} {change}")
        for part in reversed(key.split(".")):
            value = {part: value}
        raw = merged(raw, value)
    return raw


def resolved(files: list[Path], changes: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of Snakemake's files, changed by the words of its `--config`.

    Raises:
        ConfigError: as `read_extended` and `changed`; if a change is of `extends`.
    """
    # The second merge makes it a mapping even if the only file is empty.
    whole = merged(reduce(merged, map(read_extended, files)), {})
    found: dict[str, Any] = changed(whole, changes, "--config")
    if EXTENDS in found:
        raise ConfigError(f"{EXTENDS}: belongs in a file; give `--config` the values themselves")
    return found


def _names(path: Path, value: Any) -> list[str]:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{path}: {EXTENDS}: expected a file or a list of files, found {value!r}")
    return names


def _other(path: Path, name: str, chain: tuple[Path, ...]) -> Path:
    """Return the file that `name` means in the file `path`, which must not be in the chain."""
    other = path.parent / name
    if other.resolve() in chain:
        shown = " -> ".join(each.name for each in (*chain, other))
        raise ConfigError(f"{path}: {EXTENDS}: {name!r} leads back to itself ({shown}); remove one")
    return other


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, refusing one with equal keys."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(f"key {twice!r} is given twice; keep one")
    return dict(pairs)


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses repeated keys, and keys such as `no` that are not text in YAML."""

    def compose_mapping_node(self, anchor: Any) -> MappingNode:
        """Check the keys, before those of a merge (`<<`) are added."""
        node = super().compose_mapping_node(anchor)
        lines: dict[Any, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, ScalarNode) and not key.tag.endswith((":str", ":merge")):
                raise ConfigError(f"line {line}: key {key.value!r} is not text; put it in quotes")
            if isinstance(key, ScalarNode) and key.value in lines:
                first = f"first on line {lines[key.value]}"
                raise ConfigError(
                    f"line {line}: key {key.value!r} is given twice, {first}; keep one"
                )
            lines[str(key.value)] = line
        return node
