"""Write the pages of the repository that follow from its code and its published studies.

    make reference

writes `config/README.md` from the schema of the configuration and `docs/commands.md` from the help
texts. In the pages of `PAGES` it replaces everything between `<!-- results/published/<study> -->`
and `<!-- end -->` by the worst case of every defence under the first knowledge, the claims, and the
origin of the numbers. After `<!-- results/published/<study> at 93.5 % -->` it writes the privacy of
the study's sweeps at that accuracy; `<study>+<other>` takes the sweeps of both, and
`at 93.5 % of noise, gated` only these, compared with the first of them. All is computed from the
published runs, whichever version published them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_origin

import pandas as pd

from cemlib.cli import parsers
from cemlib.config import Study, load
from cemlib.config.base import Section, nested, tagged
from cemlib.config.load import SPLIT, SYSTEMS
from cemlib.records.files import read_json, write_text
from cemlib.records.scores import SCORES, marked
from cemlib.report.at_accuracy import tradeoff_table
from cemlib.report.cells import interval, mean, number
from cemlib.report.claims import sentences, warnings
from cemlib.report.comparisons import comparisons_table
from cemlib.report.frontier import Sweeps, sweep_points
from cemlib.report.publish import published_study
from cemlib.report.tables import read_runs, summary_table
from cemlib.report.texts import STRONGEST, paper_document
from cemlib.report.writer import Column, laid_out, markdown_table

KEYS = """# Configuration

A study is one YAML file; `config.yaml` is the embedded default, which `--configfile FILE` replaces.
Unknown keys, wrong types and names that do not exist are refused before any job starts, with the
nearest right name. `extends: other.yaml`, or a list of files, takes over what other files say
(docs/studies.md); `--set train.lr=0.01` on a command replaces one value. Write small numbers with a
point (`1.0e-3`): YAML reads `1e-3` as text.

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
PAGES = ("README.md", "docs/start.md", "docs/findings.md", "docs/board.md")
_BLOCK = re.compile(
    r"(<!-- (results/published/[\w+]+)(?: at ([\d.]+) %(?: of ([\w, ]+))?)? -->\n)"
    r".*?(<!-- end -->)",
    re.DOTALL,
)
_FROZEN = ("model", "train", "attacks", "threads")  # the same in all studies of a table
_LEFT_OUT = (SCORES["leakage_nats"].heading, SCORES["psnr"].heading, STRONGEST)
_COLUMNS: tuple[Column, ...] = (
    ("attacker", number("knowledge")),
    ("family", lambda row: marked(row["family"], row["n_unconverged"] > 0)),
    ("MSE ↑", mean("mse", 4)),
    ("SSIM ↓", mean("ssim", 3)),
    ("identified [%] ↓", mean("recon_top1", 1, 100)),
    ("nats ↓", mean("leakage_nats", 1)),
    ("MSE minus that of the first", number("difference", "+.3g")),
    ("95 % interval", interval()),
    ("p (Holm)", number("p_holm", ".2g")),
    ("detectable", number("detectable", ".2g")),
    ("seeds", number("n_seeds")),
)


def with_conclusions(text: str, root: Path) -> str:
    """Return a page with every block made again from the published files below a folder."""

    def made(block: re.Match[str]) -> str:
        start, folder, accuracy, chosen, end = block.groups()
        if accuracy is None:
            return f"{start}{conclusions(root, folder)}{end}"
        names = chosen.split(", ") if chosen else ()
        return f"{start}{at_accuracy(root, folder, float(accuracy), names)}{end}"

    return _BLOCK.sub(made, text)


def conclusions(root: Path, folder: str) -> str:
    """Return the worst case and the claims of one published study in Markdown."""
    study, runs, attacks = _published(root, folder)
    summary = summary_table(runs, attacks, [*study.defences])
    compared = comparisons_table(runs, attacks, [*study.defences], study.reference)
    table = paper_document(summary, _LEFT_OUT).tables[0]
    knowledge, told = next(iter(sentences(compared).items()))
    made = read_json(root / folder / "provenance.json")
    seeds, commits = len(made["seeds"]), " and ".join(commit[:7] for commit in made["commits"])
    return "\n".join(
        [
            f"\n{markdown_table(replace(table, caption=''))}\n",
            f"Attacker with {knowledge}; mean over {seeds} seeds ± half width of the 95 % interval."
            f" Commit {commits}, `{made['command']}`.\n",
            f"Each defence minus `{compared['reference'].iloc[0]}`, on the same seeds:\n",
            *(f"* {sentence}" for sentence in [*told, *warnings(summary)]),
            "",
            "",
        ]
    )


def at_accuracy(root: Path, folder: str, accuracy: float, chosen: Sequence[str] = ()) -> str:
    """Return a Markdown table of the privacy of published sweeps at an accuracy in %.

    With chosen families it has only these, in their order. Holm's correction is over all accuracies
    that the first study names, if this is one of them.
    """
    first, *others = folder.split("+")
    study, runs, attacks = _published(root, first)
    families = study.families()
    for name in others:
        joined, *frames = _published(root, f"{Path(first).parent}/{name}")
        own = {defence for family in joined.families().values() for defence in family}
        _check_joins(name, joined, own, study)
        if both := sorted({*families} & {*joined.families()}):
            raise ValueError(f"{name}: {', '.join(both)} is a family of another study already")
        families |= joined.families()
        parts = (frame[frame["defence"].isin(own)] for frame in frames)
        runs, attacks = map(pd.concat, zip((runs, attacks), parts, strict=True))
    families = {name: families[name] for name in chosen or families}
    named = study.report.match_accuracy or ()
    sweeps = Sweeps(families, named if accuracy in named else [accuracy])
    table = tradeoff_table(sweep_points(runs, attacks, sweeps), sweeps)
    table = table[table["accuracy"] == accuracy]
    return f"\n{markdown_table(laid_out('', table, _COLUMNS))}\n\n"


def _check_joins(name: str, joined: Study, own: set[str], study: Study) -> None:
    """Refuse a study with other images, networks, trainings or attacks than the first study's."""
    differing = [key for key in _FROZEN if getattr(joined, key) != getattr(study, key)]
    differing += ["data"] * (joined.data_slice() != study.data_slice())
    if differing:
        raise ValueError(f"{name}: its {', '.join(differing)} differ from those of the first study")
    for each in sorted(own):
        if (joined.network(each), joined.training(each)) != (study.model, study.train):
            raise ValueError(f"{name}: {each} has a network or a training of its own")


def _published(root: Path, folder: str) -> tuple[Study, pd.DataFrame, pd.DataFrame]:
    """Return a published study, its runs, and its attacks."""
    file, changes = published_study(root / folder)
    return load(root / file, changes), *read_runs(root / folder / "runs.csv")


def commands_page() -> str:
    """Return the whole page, in Markdown."""
    helps = (
        f"\n## `{name}`\n\n```text\n{parser.format_help()}```\n"
        for name, parser in parsers().items()
    )
    return "".join([COMMANDS, *helps])


def reference() -> str:
    """Return the whole page, in Markdown."""
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
    root = Path(__file__).parents[1]
    write_text(root / "config/README.md", reference())
    write_text(root / "docs/commands.md", commands_page())
    for page in (root / name for name in PAGES):
        write_text(page, with_conclusions(page.read_text(encoding="utf-8"), root))
