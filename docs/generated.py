"""Write the pages of the repository that follow from its code and its published studies.

    make reference

writes `config/README.md` from the schema of the configuration, `docs/commands.md` from the help
texts, and the tables and claims of published studies (see `docs/published.py`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin

import yaml

from cemlib.cli import parsers
from cemlib.config.base import Section, nested, tagged
from cemlib.config.load import SPLIT, SYSTEMS
from cemlib.records.files import write_text
from docs.published import PAGES, published_claims, with_conclusions

KEYS = """# Configuration

A study is one YAML file. `config.yaml` is the embedded default; `snakemake --configfile FILE` and
`cemlib run --config FILE` take another. Unknown keys, wrong types and names that do not exist are
refused before any job starts, with the closest valid name. `extends: other.yaml`, or a list of
files, merges in these other files ([how](../docs/studies.md#files-that-extend-others)); `--set
train.lr=0.01` on a command replaces one value. Write small numbers with a point (`1.0e-3`): YAML
reads `1e-3` as text.

A surrogate, channel, penalty or attack is chosen by its `name` or `kind`, which the heading gives.

This page is written from the schema by `make reference`.
"""
COMMANDS = """# Commands

`cemlib COMMAND`, or `python -m cemlib COMMAND` where no program is installed. Every command
explains itself with `--help`. Snakemake's jobs are these commands.

Completion by bash or zsh, which also knows the defences, attacks, jobs and runs of the study in
`--config`:

```
eval "$(register-python-argcomplete cemlib)"
```

This page is written from the code by `make reference`.
"""


def commands_page() -> str:
    """Return `docs/commands.md`."""
    helps = (
        f"\n## `{name}`\n\n```text\n{parser.format_help()}```\n"
        for name, parser in parsers().items()
    )
    return "".join([COMMANDS, *helps])


def reference() -> str:
    """Return `config/README.md`."""
    seen = set[type[Section]]()  # the other systems have the same `data`
    parts = [KEYS]
    for name, study in SYSTEMS.items():
        system = "" if name == SPLIT else f"{name} "
        parts.append(_section(f"A study (`system: {name}`)" if system else "The study", study))
        for place, kind in _below(study, ""):
            if kind not in seen:
                parts.append(_section(f"{system}{place}", kind))
            seen.add(kind)
    return "".join(parts)


def _below(kind: type[Section], path: str) -> Iterator[tuple[str, type[Section]]]:
    """Yield the place in a configuration and the class of every section inside a section."""
    for name, field in kind.model_fields.items():
        found = list(nested(field.annotation))
        by_name = ".<name>" if get_origin(field.annotation) is dict else ""
        place = f"{path}{field.alias or name}{by_name}"
        if len(found) == 1:
            yield f"`{place}`", found[0]
        elif found:
            yield from ((f"`{place}`: `{t}`", each) for t, each in tagged(field.annotation).items())
        for inner in found:
            yield from _below(inner, f"{place}.")


def _section(title: str, kind: type[Section]) -> str:
    schema = kind.model_json_schema(by_alias=True)
    required = schema.get("required", [])
    rows = [
        _row(key, facts, key in required)
        for key, facts in schema["properties"].items()
        if "const" not in facts  # the heading has it
    ]
    text = " ".join((kind.__doc__ or "").split())
    head = ["", "| key | values | default | meaning |", "|---|---|---|---|"] if rows else []
    return "\n".join([f"\n## {title}\n", text, *head, *rows, ""])


def _row(key: str, facts: dict[str, Any], required: bool) -> str:
    shown = _shown(facts["default"]) if "default" in facts else "{...}"  # made by a factory
    default = "required" if required else f"`{shown}`"
    meaning = facts.get("description", "").replace("|", r"\|")
    return f"| `{key}` | {_values(facts)} | {default} | {meaning} |"


def _values(facts: dict[str, Any]) -> str:
    if "anyOf" in facts:
        return " or ".join(_values(option) for option in facts["anyOf"])
    if "enum" in facts:
        return ", ".join(f"`{_shown(value)}`" for value in facts["enum"])
    if facts.get("type") == "array":
        every = facts.get("items") or facts["prefixItems"][0]  # a pair has a schema for each
        items = _values(every)
        return f"list of ({items})" if "anyOf" in every else f"list of {items}"
    limits = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {facts[name]:g}" for name, sign in limits.items() if name in facts]
    steps = f", a multiple of {facts['multipleOf']}" if "multipleOf" in facts else ""
    return " ".join([facts.get("type", "section"), *bounds]) + steps


def _shown(value: Any) -> str:
    """Return a value as YAML writes it, but not what a section holds."""
    if isinstance(value, dict) and value:
        return "{...}"
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).partition("\n")[0]


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    write_text(root / "config/README.md", reference())
    write_text(root / "docs/commands.md", commands_page())
    for page in (root / name for name in PAGES):
        write_text(page, with_conclusions(page.read_text(encoding="utf-8"), root))
    for place, text in published_claims(root):
        write_text(place, text)
