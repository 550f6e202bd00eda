"""The page of all commands, made of their help: `python -m cemlib.cli.pages`."""

import shtab

from cemlib.cli.parser import parsers

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
    helps = (
        f"\n## `{name}`\n\n```text\n{parser.format_help()}```\n"
        for name, parser in parsers().items()
    )
    return "".join([HEADER, *helps])


if __name__ == "__main__":
    print(commands_page(), end="")
