"""What several subcommands share: their options' types, and what the options stand for."""

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import torch

    from cemlib.plan import Plan

DEFAULT_CONFIG = Path("config/config.yaml")
DEFAULT_STORE = "sqlite:///mlflow.db"
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Command: TypeAlias = Callable[[argparse.Namespace], Iterator[Path | str]]


def add_command(
    commands: Commands, name: str, text: str, run: Command, more: str = ""
) -> argparse.ArgumentParser:
    """Add a subcommand to the command line, and return its parser.

    Args:
        commands: the subcommands so far.
        name: of the new one.
        text: what it does, as a phrase.
        run: its function.
        more: what `--help` adds to the phrase.
    """
    description = f"{text[0].upper()}{text[1:]}. {more}".rstrip()
    parser = commands.add_parser(name, help=text, description=description)
    parser.set_defaults(command=run)
    return parser


def add_config(
    parser: argparse.ArgumentParser,
    meaning: str = "the study's configuration (default: %(default)s)",
    default: Path | None = DEFAULT_CONFIG,
) -> None:
    """Add `--config`."""
    parser.add_argument("--config", type=Path, default=default, metavar="FILE", help=meaning)


def positive(text: str) -> int:
    """Read a positive whole number, as the type of an option."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add `--device`."""
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: %(default)s"
    )


def add_slots(parser: argparse.ArgumentParser) -> None:
    """Add `--slots`."""
    parser.add_argument(
        "--slots",
        type=positive,
        default=1,
        metavar="N",
        help="jobs at the same time (default: %(default)s)",
    )


def add_uri(parser: argparse.ArgumentParser) -> None:
    """Add `--uri`, the MLflow store."""
    parser.add_argument(
        "--uri",
        default=os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_STORE,
        help=f"MLflow store or server (default: MLFLOW_TRACKING_URI, or {DEFAULT_STORE})",
    )


def plan_of(options: argparse.Namespace) -> "Plan":
    """The plan of the study that `--config` names.

    Raises:
        ConfigError: if it cannot be read or is faulty.
    """
    from cemlib.config import load
    from cemlib.plan import Plan

    return Plan(load(options.config))


def device_of(options: argparse.Namespace) -> "torch.device":
    """The device that `--device` asks for; `auto` is the graphics card where there is one.

    Raises:
        ConfigError: if it asks for a graphics card and there is none.
    """
    from cemlib.study.process import find_device

    return find_device(options.device)
