"""Completion by a shell: the script for it is made by shtab from the parser itself."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")


class PrintCompletion(argparse.Action):
    """Print the script for a shell, and end."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - an action's arguments
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """See the class."""
        import shtab  # 30 ms that only this option pays

        for option in _files(parser):
            vars(option)["complete"] = shtab.FILE
        print(shtab.complete(parser, shell=str(values)))
        parser.exit()


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of every subcommand, by name, in the order of `--help`."""
    found = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return dict(next(found).choices)


def _files(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Options of the subcommands whose value is a path."""
    for command in subcommands(parser).values():
        yield from (action for action in command._actions if action.type is Path)
