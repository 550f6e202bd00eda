"""Configurations that say only how they differ from others.

`extends: other.yaml` at the top of a file, a path beside that file, stands for the other file's
content; of a list of files, each is merged into what those before it make. The file itself is
merged into that as a JSON Merge Patch (RFC 7396): mappings key by key, `null` takes a key away, and
all else, lists too, takes the place of what was there. A key without a value has its default, and
the default of every key that may be `null` is `null`: taking it away and setting it to `null` are
the same.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cemlib.config.errors import ConfigError
from cemlib.config.reading import from_text, read

EXTENDS = "extends"


def read_extended(path: Path) -> Any:
    """Read the values of a file, and of those that it extends, without the key `extends`.

    Raises:
        ConfigError: as `read` does for each file; if one extends itself, through others or not.
    """
    return _read(path, ())


def merged(below: Any, above: Any) -> Any:
    """Return a configuration with another one, which wins, merged into it (RFC 7396).

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


def changed(raw: Any, changes: Sequence[str]) -> Any:
    """Return a configuration with values merged into it that are given as `KEY=VALUE`.

    The key is dotted, the value YAML.

    Raises:
        ConfigError: if a change has another form.

    >>> changed({"train": {"epochs": 2}}, ["train.lr=0.01", "seeds=[0, 1]"])
    {'train': {'epochs': 2, 'lr': 0.01}, 'seeds': [0, 1]}
    """
    for change in changes:
        key, sign, text = change.partition("=")
        if not sign or not all(key.split(".")):
            raise ConfigError(f"--set {change}: expected KEY=VALUE, such as train.lr=0.01")
        value = from_text(text, f"--set {change}")
        for part in reversed(key.split(".")):
            value = {part: value}
        raw = merged(raw, value)
    return raw


def resolved(files: list[Path], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Snakemake's `config` stands for: its files with what they extend, in order.

    Args:
        files: Snakemake's `workflow.configfiles`.
        above: its `config`, merged from these files as they stand and from `--config`.

    Raises:
        ConfigError: as `read_extended`.
    """
    whole: Any = {}
    for file in files:
        whole = merged(whole, read_extended(file))
    found: dict[str, Any] = merged(whole, above)
    if EXTENDS in found and found.pop(EXTENDS) not in [read(file).get(EXTENDS) for file in files]:
        raise ConfigError(
            f"{EXTENDS}: has its place in a file; `--config` says what differs itself"
        )
    return found


def _read(path: Path, chain: tuple[Path, ...]) -> Any:
    """Read a file that the last one of a chain of files extends, each the next."""
    raw = read(path)
    if not isinstance(raw, dict) or EXTENDS not in raw:
        return raw
    below: Any = {}
    chain = (*chain, path.resolve())
    for name in _names(path, raw.pop(EXTENDS)):
        found = _read(_other(path, name, chain), chain)
        if not isinstance(found, Mapping):
            raise ConfigError(f"{path}: {EXTENDS}: {name!r} holds no mapping of keys")
        below = merged(below, found)
    return merged(below, raw)


def _names(path: Path, value: Any) -> list[str]:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{path}: {EXTENDS}: expected a file or a list of files, found {value!r}")
    return names


def _other(path: Path, name: str, chain: tuple[Path, ...]) -> Path:
    """Return the file that `name` stands for in the file `path`, none that it was reached from."""
    other = path.parent / name
    if other.resolve() in chain:
        shown = " -> ".join(each.name for each in (*chain, other))
        raise ConfigError(f"{path}: {EXTENDS}: {name!r} leads back to itself ({shown}); remove one")
    return other
