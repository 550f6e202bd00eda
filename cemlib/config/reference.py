"""The reference of every key, written from the schema: `python -m cemlib.config.reference`."""

from collections.abc import Iterator
from typing import Any, get_origin

from cemlib.config.base import Section, nested, tagged
from cemlib.config.load import SPLIT, SYSTEMS

HEADER = """# Configuration

A study is one YAML file; `config.yaml` is the embedded default, which `--configfile FILE` replaces.
Unknown keys, wrong types and names that do not exist are refused before any job starts, with the
nearest right name. `extends: other.yaml`, or a list of files, takes over what other files say
(docs/studies.md); `--set train.lr=0.01` on a command replaces one value. Write small numbers with a
point (`1.0e-3`): YAML reads `1e-3` as text.

This page is written from the schema by `make reference`.
"""


def reference() -> str:
    """Return the whole page, in Markdown."""
    seen = set[type[Section]]()  # the other systems have the same `data`
    parts = [HEADER]
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
    rows = [_row(key, facts, key in required) for key, facts in schema["properties"].items()]
    text = " ".join((kind.__doc__ or "").split())
    table = "\n".join(["| key | values | default | meaning |", "|---|---|---|---|", *rows])
    return f"\n## {title}\n\n{text}\n\n{table}\n"


def _row(key: str, facts: dict[str, Any], required: bool) -> str:
    default = "required" if required else f"`{_shown(facts.get('default'))}`"
    meaning = facts.get("description", "")
    return f"| `{key}` | {_values(facts)} | {default} | {meaning} |"


def _values(facts: dict[str, Any]) -> str:
    if "anyOf" in facts:
        return " or ".join(_values(option) for option in facts["anyOf"])
    if "enum" in facts:
        return ", ".join(f"`{_shown(value)}`" for value in facts["enum"])
    if "const" in facts:
        return f"`{facts['const']}`"
    if facts.get("type") == "array":
        every = facts.get("items") or facts["prefixItems"][0]  # a pair has a schema for each
        return f"list of {_values(every)}"
    limits = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {facts[name]:g}" for name, sign in limits.items() if name in facts]
    return " ".join([facts.get("type", "section"), *bounds])


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "{...}"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return (
        str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
    )


if __name__ == "__main__":
    print(reference(), end="")
