"""Reading a configuration file, YAML or JSON; a key given twice is refused."""

import json
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, ScalarNode

from cemlib.config.errors import ConfigError


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
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{place}: not a {kind} file: {' '.join(str(error).split())}") from error
    return values


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, refusing one with equal keys."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(f"key {twice!r} is given twice; keep one")
    return dict(pairs)


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses repeated keys."""

    def compose_mapping_node(self, anchor: Any) -> MappingNode:
        """Refuse repeated keys, before the keys of a merge (`<<`) are added."""
        node = super().compose_mapping_node(anchor)
        lines: dict[Any, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, ScalarNode) and key.value in lines:
                first = f"first on line {lines[key.value]}"
                raise ConfigError(
                    f"line {line}: key {key.value!r} is given twice, {first}; keep one"
                )
            lines[str(key.value)] = line
        return node
