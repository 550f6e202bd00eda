"""The command line's parser: every subcommand with its options."""

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from cemlib import __version__
from cemlib.cli import commands as study
from cemlib.cli.bench import add_bench
from cemlib.cli.options import Commands, positive

DEFAULT_CONFIG = Path("config/config.yaml")
DEFAULT_STORE = "sqlite:///mlflow.db"
DIVERGED = (
    "Exit code 3: all was carried out, but some run or attack is a failed one: its loss diverged."
    " A line says which and why, and tables and figures show it as failed."
)


def build_parser() -> argparse.ArgumentParser:
    """The parser; the options of a subcommand carry its function as `command`."""
    parser = argparse.ArgumentParser(
        prog="cemlib",
        description="Train defended split classifiers, attack them, and report utility against"
        " privacy. Every command reads one study's configuration, works on all of the study unless"
        " narrowed, and prints the files it wrote. Snakemake runs the same commands as jobs.",
    )
    parser.add_argument("--version", action="version", version=f"cemlib {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add(commands, "prepare", study.run_prepare, "read, check, split and store the images")
    _add_jobs(commands)
    _add_readers(commands)
    _add_run(commands)
    _add(
        commands,
        "publish",
        study.run_publish,
        "copy a finished study's tables under results/published",
    )
    add_bench(commands)
    return parser


def _add_jobs(commands: Commands) -> None:
    train = _add(commands, "train", study.run_train, "train defended classifiers, and the judge")
    attack = _add(
        commands, "attack", study.run_attack, "reconstruct images from a run's released features"
    )
    for parser in (train, attack):
        parser.epilog = DIVERGED
        _add_defence(parser)
        parser.add_argument("--seed", type=int, metavar="N", help="only this seed")
        _add_device(parser)
    attack.add_argument(
        "--attack", action="append", metavar="NAME", help="only this attack; may be repeated"
    )


def _add_readers(commands: Commands) -> None:
    report = _add(commands, "report", study.run_report, "write tables and figures of finished jobs")
    _add_defence(report)
    report.add_argument(
        "--only",
        choices=("tables", "figures", "cluster_course", "surrogates"),
        help="only this part",
    )
    track = _add(commands, "track", study.run_track, "upload finished jobs to MLflow")
    _add_defence(track)
    track.add_argument(
        "--uri",
        default=os.environ.get("MLFLOW_TRACKING_URI", DEFAULT_STORE),
        help="MLflow store or server (default: %(default)s, or MLFLOW_TRACKING_URI)",
    )
    track.add_argument(
        "--watch", action="store_true", help="keep uploading curves until every job has finished"
    )


def _add_run(commands: Commands) -> None:
    parser = _add(
        commands, "run", study.run_whole_study, "all jobs of a study but track, without Snakemake"
    )
    parser.epilog = DIVERGED
    _add_device(parser)
    parser.add_argument(
        "--slots",
        type=positive,
        default=1,
        metavar="N",
        help="jobs at the same time (default: %(default)s)",
    )


def _add_defence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--defence", metavar="NAME", help="only this defence")


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: %(default)s"
    )


def _add(
    commands: Commands,
    name: str,
    command: Callable[[argparse.Namespace], Iterator[Path | str]],
    text: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument(
        "--config",
        type=Path,
        default=DEFAULT_CONFIG,
        metavar="FILE",
        help="the study's configuration (default: %(default)s)",
    )
    parser.set_defaults(command=command)
    return parser
