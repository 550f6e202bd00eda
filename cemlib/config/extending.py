"""Configurations that extend others and contain only the differences.

`extends: other.yaml` at the top of a file names another file by its path from there; of a list of
files, each is merged into those before it. The file itself is then merged into the result as a JSON
Merge Patch (RFC 7396): mappings key by key, `null` removes a key, and any other value, a list too,
replaces the value before. The default of every key that may be `null` is `null`, so removing a key
and setting it to `null` are the same.
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


def changed(raw: Any, changes: Sequence[str]) -> Any:
    """Return a configuration with changes merged into it, each a dotted key and YAML: `KEY=VALUE`.

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
    """Return Snakemake's configuration with the files that its own files extend.

    Its `config` is merged from these files as they are, and from `--config`.

    Raises:
        ConfigError: as `read_extended`.
    """
    whole: Any = {}
    for file in files:
        whole = merged(whole, read_extended(file))
    found: dict[str, Any] = merged(whole, above)
    if EXTENDS in found and found.pop(EXTENDS) not in [read(file).get(EXTENDS) for file in files]:
        raise ConfigError(
            f"{EXTENDS}: has its place in a file; give `--config` the values themselves"
        )
    return found


def _read(path: Path, chain: tuple[Path, ...]) -> Any:
    """Read a file; `chain` holds the files that led to it, each extending the next."""
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
    """Return the file that `name` means in the file `path`, which must not be in the chain."""
    other = path.parent / name
    if other.resolve() in chain:
        shown = " -> ".join(each.name for each in (*chain, other))
        raise ConfigError(f"{path}: {EXTENDS}: {name!r} leads back to itself ({shown}); remove one")
    return other
