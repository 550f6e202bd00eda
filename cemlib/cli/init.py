"""The command `init`."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from string import Template

TEMPLATE = Path(__file__).with_name("study.yaml")


def init(options: argparse.Namespace) -> Iterator[Path]:
    """Write a commented study of an image folder, to be edited.

    Raises:
        ConfigError: if the file is there already.
    """
    from cemlib.config import ConfigError
    from cemlib.records.files import write_text

    path = Path(f"{options.name}.yaml")
    if path.exists():
        raise ConfigError(f"{path}: already exists; choose another name, or delete it")
    root = json.dumps(str(options.images))  # JSON text is valid YAML, whatever it holds
    template = Template(TEMPLATE.read_text(encoding="utf-8"))
    write_text(path, template.substitute(name=options.name, root=root))
    yield path
