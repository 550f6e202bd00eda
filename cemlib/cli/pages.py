"""The page of every command, written from its options: `python -m cemlib.cli.pages`."""

import re
from collections.abc import Sequence

import shtab

from cemlib.cli.commands import ABOUT, COMMANDS, GENERAL, Command
from cemlib.cli.exits import EXIT_CODES
from cemlib.cli.options import Option

HEADER = f"""# Commands

`cemlib COMMAND`, or `python -m cemlib COMMAND` where no program is installed. Every command
explains itself with `--help`. Snakemake's jobs are these commands.

Completion of commands, options and files by the shell ({", ".join(shtab.SUPPORTED_SHELLS)}):

```
eval "$(cemlib --print-completion bash)"
```

This page is written from the code by `make reference`.
"""


def commands_page() -> str:
    """Return the whole page, in Markdown."""
    general = f"\n## `cemlib`\n\n{ABOUT}\n\n{_table(GENERAL)}\n"
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    exits = f"\n## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}\n"
    return "".join([HEADER, general, *map(_section, COMMANDS, COMMANDS.values()), exits])


def _section(name: str, command: Command) -> str:
    text = "\n\n".join(" ".join(part.split()) for part in command.description.split("\n\n"))
    examples, table = "\n".join(command.examples), _table(command.options)
    return f"\n## `{name}`\n\n{text}\n\n```\n{examples}\n```\n\n{table}\n"


def _table(options: Sequence[Option]) -> str:
    rows = [f"| {_names(option)} | {_meaning(option)} |" for option in options]
    return "\n".join(["| option | meaning |", "|---|---|", *rows])


def _names(option: Option) -> str:
    flag, settings = option.flags[0], option.settings
    choices = "{" + ",".join(settings.get("choices", ())) + "}"
    value = settings.get("metavar", choices if "choices" in settings else flag.lstrip("-").upper())
    if not flag.startswith("-"):
        return f"`{value}`"
    return (
        f"`{flag}`" if settings.get("action") in ("store_true", "version") else f"`{flag} {value}`"
    )


def _meaning(option: Option) -> str:
    """Return the help with its default filled in; a bar would end the cell."""
    text = option.settings["help"] % {"default": option.settings.get("default")}
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


if __name__ == "__main__":
    print(commands_page(), end="")
