"""Reading a configuration file, YAML or JSON, whose keys must differ and be text.

Of a key given twice, both take the last without a word; and YAML takes `no` for false, and `1` for
a number, as a key too.
"""

import json
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node

from cemlib.config.errors import ConfigError

TEXT = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")  # and `<<`


def read(path: Path) -> Any:
    """Read the values of a YAML (or JSON) file.

    Raises:
        ConfigError: if the file is missing, neither YAML nor JSON, or gives a key twice.
    """
    kind = "JSON" if path.suffix == ".json" else "YAML"
    try:
        text = path.read_text(encoding="utf-8")
        # YAML would read JSON's 1e-06 as text.
        return json.loads(text, object_pairs_hook=_distinct) if kind == "JSON" else _yaml(text)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such configuration file") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file in UTF-8 ({error}); save it as one") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not a {kind} file: {' '.join(str(error).split())}") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, whose keys must differ."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(f"key {twice!r} is given twice; keep one")
    return dict(pairs)


def _yaml(text: str) -> Any:
    values = yaml.load(text, Loader=_Loader)
    json.dumps(values, default=str)  # raises ValueError where an alias makes a value contain itself
    return values


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which checks keys."""

    def compose_mapping_node(self, anchor: Any) -> MappingNode:
        """Check the keys here: later, those of a merge would be among them."""
        node = super().compose_mapping_node(anchor)
        lines: dict[Any, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.tag not in TEXT:
                raise ConfigError(f"line {line}: expected text as a key, found {_shown(key)}")
            if key.value in lines:
                first = f"first on line {lines[key.value]}"
                raise ConfigError(
                    f"line {line}: key {key.value!r} is given twice, {first}; keep one"
                )
            lines[key.value] = line
        return node


def _shown(key: Node) -> str:
    return f"{key.value}; put it in quotes" if isinstance(key.value, str) else "a list or mapping"
