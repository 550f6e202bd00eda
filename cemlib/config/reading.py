"""Reading a configuration file: YAML or JSON, of text, numbers, lists and mappings alone.

A file may come from a stranger. What YAML has beyond JSON's values (dates, bytes, objects of
Python) is refused, and so are a key given twice, of which YAML takes the last without a word, and
files that grow: a few aliases of aliases stand for more values than fit into memory.
"""

import json
from pathlib import Path
from typing import Any, ClassVar

import yaml
from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode

from cemlib.config.errors import ConfigError
from cemlib.config.plain import MAX_TEXT

MAX_BYTES = 2**20
MAX_ALIASES = 1000
MAX_PAIRS = 1000  # of one mapping, with those that it merges

KINDS = ("null", "bool", "int", "float", "str", "seq", "map")
SNAKEMAKE_TEMPLATE = "__use_yte__"


def read(path: Path) -> Any:
    """Read the values of a YAML (or JSON) file.

    Raises:
        ConfigError: if the file is missing, too large, neither YAML nor JSON, gives a key twice,
            or is a template of Snakemake.
    """
    text = _text(path)
    kind = "JSON" if path.suffix == ".json" else "YAML"
    try:
        # YAML would read JSON's 1e-06 as text.
        raw = json.loads(text, object_pairs_hook=_distinct) if kind == "JSON" else _yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply for a configuration") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path}: not a {kind} file: {' '.join(str(error).split())}") from error
    if isinstance(raw, dict) and SNAKEMAKE_TEMPLATE in raw:
        raise ConfigError(
            f"{path}: {SNAKEMAKE_TEMPLATE}: a template holds programs; write the values themselves"
        )
    return raw


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such configuration file") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: more than {MAX_BYTES} bytes, too large for a configuration")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file in UTF-8 ({error}); save it as one") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, whose keys must differ."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(f"key {twice!r:.60} is given twice; keep one")
    return dict(pairs)


def _yaml(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


def _fault(mark: Mark, message: str) -> ConfigError:
    return ConfigError(f"line {mark.line + 1}: {message}")


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with less that it can build, and keys that must differ."""

    yaml_constructors: ClassVar[dict[Any, Any]] = {
        tag: yaml.SafeLoader.yaml_constructors[tag]
        for tag in (f"tag:yaml.org,2002:{kind}" for kind in KINDS)
    }

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._aliases = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Count the aliases."""
        if self.check_event(yaml.AliasEvent):
            self._aliases += 1
            if self._aliases > MAX_ALIASES:
                raise ConfigError(f"more than {MAX_ALIASES} aliases")
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> MappingNode:
        """Compare the keys; later, those of a merge would be among them."""
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, ScalarNode)):
            line = key.start_mark.line + 1
            if key.value in lines:
                message = f"key {key.value!r:.60} is given twice, first on line {lines[key.value]}"
                raise _fault(key.start_mark, f"{message}; keep one")
            lines[key.value] = line
        return node

    def flatten_mapping(self, node: MappingNode) -> None:
        """Merge, up to a limit."""
        super().flatten_mapping(node)
        if len(node.value) > MAX_PAIRS:
            raise _fault(node.start_mark, f"a mapping of more than {MAX_PAIRS} keys")

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        """Say where a value is that is not of the kind it looks like or claims to be."""
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if node.tag not in self.yaml_constructors:
            raise _fault(
                node.start_mark, f"{kind!r:.60} has no place in a configuration; quote text"
            )
        if isinstance(node, ScalarNode) and len(node.value) > MAX_TEXT:
            raise _fault(node.start_mark, f"a value of {len(node.value)} characters")
        try:
            return super().construct_object(node, deep)
        except ConfigError:
            raise
        except (ValueError, LookupError, OverflowError) as error:
            raise _fault(node.start_mark, f"cannot be read as {kind}") from error
