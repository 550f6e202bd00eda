"""Define commands and the options that several share, and complete names in the shell.

Names are those of the study of the `--config` and `--set` typed so far.
"""

import argparse
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from cemlib.config import Study
    from cemlib.study.job import AnyPlan
    from cemlib.study.plan import Plan

Completer: TypeAlias = Callable[..., Iterable[str]]

DEFAULT_CONFIG = Path("config/config.yaml")
DEFAULT_STORE = "sqlite:///mlflow.db"


class Option:
    """An option of a command: arguments of `add_argument`, and what completes its value."""

    def __init__(self, *flags: str, completer: Completer | None = None, **settings: Any) -> None:
        self.flags, self.completer, self.settings = flags, completer, settings


@dataclass(frozen=True)
class Command:
    """A command: its function, whose docstring is the help, its options, and examples."""

    run: Callable[[argparse.Namespace], Iterator[Path | str]]
    options: Sequence[Option]
    examples: Sequence[str]

    @property
    def description(self) -> str:
        """Return the docstring up to its first section, such as `Raises:`."""
        text = inspect.getdoc(self.run) or ""
        return re.split(r"\n\n\w+:\n", text)[0]

    @property
    def phrase(self) -> str:
        """Return the first line of the docstring as a phrase."""
        line = self.description.partition("\n")[0]
        return f"{line[:1].lower()}{line[1:].removesuffix('.')}"


def positive(text: str) -> int:
    """Read a positive whole number, as the type of an option."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def percent(text: str) -> float:
    """Read a number above 0 and up to 100, as the type of an option."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and up to 100")
    return value


def accuracy(text: str) -> float:
    """Read an accuracy in %, as the type of an option; 1 or less must be meant as a fraction."""
    if (value := percent(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is a fraction; give the accuracy in %")
    return value


def names_of(section: str) -> Completer:
    """Return a completer of the names in a section of the study."""
    return lambda parsed_args, **_: list(getattr(plan_of(parsed_args).study, section))


def jobs(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the names of the jobs of a study of any system."""
    from cemlib.study.systems import read_study

    return [job.name for job in read_study(parsed_args.config, parsed_args.set)[1]]


def runs(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the names of the results of a study of any system, as `cemlib show` takes them."""
    from cemlib.study.job import owners
    from cemlib.study.status import named_folders
    from cemlib.study.systems import read_study

    return [*named_folders(owners(read_study(parsed_args.config, parsed_args.set)[1]))]


SET = Option(
    "--set",
    action="append",
    default=[],
    metavar="KEY=VALUE",
    help="change a value of the configuration, as in `train.lr=0.01`; a section is merged, a name"
    " alone (`surrogate: gated`) is replaced, and null removes a key; may be repeated",
)


def config(default: Path | None = DEFAULT_CONFIG, about: str = "the study") -> tuple[Option, ...]:
    """Return the options `--config`, the configuration of something, and `--set`."""
    text = f"configuration of {about} (default: {default or 'none'})"
    return Option("--config", type=Path, default=default, metavar="FILE", help=text), SET


def defence(about: str, **settings: Any) -> Option:
    """Return the option `--defence`, the name of a defence."""
    return Option(
        "--defence", completer=names_of("defences"), metavar="NAME", help=about, **settings
    )


CONFIG = config()
DEFENCE = defence("only this defence")
SEED = Option("--seed", type=int, metavar="N", help="only this seed")
DEVICE = Option(
    "--device",
    choices=("auto", "cpu", "cuda"),
    default="auto",
    help="where to compute (default: %(default)s)",
)
SLOTS = Option(
    "--slots", type=positive, default=1, metavar="N", help="jobs at a time (default: %(default)s)"
)
URI = Option(
    "--uri",
    default=os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_STORE,
    help=f"MLflow store or server (default: MLFLOW_TRACKING_URI, or {DEFAULT_STORE})",
)
STALE = Option(
    "--stale",
    action="store_true",
    help="also show results made with other settings, data or code, marked as such",
)


def plan_of(options: argparse.Namespace) -> "Plan[Study]":
    """Return the plan of the study of `--config` and `--set`; raise ConfigError if it is faulty."""
    from cemlib.config import load
    from cemlib.study.plan import Plan

    stale, device = getattr(options, "stale", False), getattr(options, "device", "auto")
    return Plan(load(options.config, options.set), stale, device)


def check_first(plan: "AnyPlan") -> None:
    """Print the warnings about a study before it runs; raise ConfigError if it cannot run."""
    from cemlib.study.requirements import warnings_of

    for warning in warnings_of(plan):
        print(warning, file=sys.stderr)
