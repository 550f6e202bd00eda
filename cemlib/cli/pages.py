"""The page of every command, written from the parser: `python -m cemlib.cli.pages`."""

import argparse
import re
from collections.abc import Iterable

from cemlib.cli.completion import SHELLS, subcommands
from cemlib.cli.examples import EXAMPLES
from cemlib.cli.exits import EXIT_CODES
from cemlib.cli.parser import build_parser

HEADER = f"""# Commands

`cemlib COMMAND`, or `python -m cemlib COMMAND` where no program is installed. Every command
explains itself with `--help`. Snakemake's jobs are these commands.

Completion of commands, options and files by the shell ({", ".join(SHELLS)}):

```
eval "$(cemlib --print-completion bash)"
```

This page is written from the parser by `make reference`.
"""


def commands_page() -> str:
    """The whole page, in Markdown."""
    parser = build_parser()
    sections = (_section(name, each) for name, each in subcommands(parser).items())
    return "".join([HEADER, _general(parser), *sections, _exit_codes()])


def _general(parser: argparse.ArgumentParser) -> str:
    return f"\n## `cemlib`\n\n{_text(parser.description)}\n\n{_table(_options(parser))}\n"


def _section(name: str, parser: argparse.ArgumentParser) -> str:
    examples = "\n".join(EXAMPLES[name])
    table = _table(_options(parser))
    return f"\n## `{name}`\n\n{_text(parser.description)}\n\n```\n{examples}\n```\n\n{table}\n"


def _exit_codes() -> str:
    rows = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    return f"\n## Exit codes\n\n| code | meaning |\n|---|---|\n{rows}\n"


def _options(parser: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    left_out = (argparse._HelpAction, argparse._SubParsersAction)
    return (action for action in parser._actions if not isinstance(action, left_out))


def _table(actions: Iterable[argparse.Action]) -> str:
    rows = [f"| {_names(action)} | {_meaning(action)} |" for action in actions]
    return "\n".join(["| option | meaning |", "|---|---|", *rows])


def _names(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {_value(action)}"
    if not action.option_strings:
        return f"`{value.strip()}`"
    return ", ".join(f"`{name}{value}`" for name in action.option_strings)


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    names = [str(choice) for choice in action.choices or ()]
    return "{" + ",".join(names) + "}" if names else action.dest.upper()


def _meaning(action: argparse.Action) -> str:
    """The help with its default filled in; a bar would end the cell."""
    return _text((action.help or "") % vars(action)).replace("|", "\\|")


def _text(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


if __name__ == "__main__":
    print(commands_page(), end="")
