"""Command line: one subcommand per kind of job, each reading one configuration file.

Nothing heavy is imported before the subcommand is known, so that `--help` answers at once.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib import __version__

if TYPE_CHECKING:
    import torch

    from cemlib.plan import Plan

DEFAULT_CONFIG = Path("config/config.yaml")
DEFAULT_STORE = "sqlite:///mlflow.db"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns 0, or 2 after one line per fault of the user's input."""
    options = _parser().parse_args(arguments)
    # Idle OpenMP threads that spin would take the cores from the jobs beside this one.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    command: Callable[[argparse.Namespace], Iterator[Path | str]] = options.command
    try:
        for written in command(options):
            print(written, flush=True)
    except _user_errors() as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: run the same command again to go on", file=sys.stderr)
        return 130
    return 0


def _user_errors() -> tuple[type[Exception], ...]:
    """Exceptions whose message is meant for the user; anything else is a bug and shows itself."""
    from cemlib.config import ConfigError
    from cemlib.data.errors import DataError
    from cemlib.files import FileError
    from cemlib.tracking.errors import TrackingError

    # An OSError names the file and what the system refused: a full disk, a folder without rights.
    return (ConfigError, DataError, FileError, TrackingError, OSError)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cemlib",
        description="Train defended split classifiers, attack them, and report utility against"
        " privacy. Every command reads one study's configuration, works on all of the study unless"
        " narrowed, and prints the files it wrote. Snakemake runs the same commands as jobs.",
    )
    parser.add_argument("--version", action="version", version=f"cemlib {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add(commands, "prepare", _prepare, "read, check, split and store the images")
    train = _add(commands, "train", _train, "train defended classifiers, and the judge")
    attack = _add(commands, "attack", _attack, "reconstruct images from a run's released features")
    report = _add(commands, "report", _report, "write tables and figures of finished jobs")
    track = _add(commands, "track", _track, "upload finished jobs to MLflow")
    _add(commands, "publish", _publish, "copy a finished study's tables under results/published")
    _add_bench(commands)
    for narrowed in (train, attack, report, track):
        narrowed.add_argument("--defence", metavar="NAME", help="only this defence")
    for seeded in (train, attack):
        seeded.add_argument("--seed", type=int, metavar="N", help="only this seed")
        seeded.add_argument(
            "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: %(default)s"
        )
    attack.add_argument(
        "--attack", action="append", metavar="NAME", help="only this attack; may be repeated"
    )
    report.add_argument(
        "--only",
        choices=("tables", "figures", "cluster_course", "surrogates"),
        help="only this part",
    )
    track.add_argument(
        "--uri",
        default=os.environ.get("MLFLOW_TRACKING_URI", DEFAULT_STORE),
        help="MLflow store or server (default: %(default)s, or MLFLOW_TRACKING_URI)",
    )
    track.add_argument(
        "--watch", action="store_true", help="keep uploading curves until every job has finished"
    )
    return parser


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
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


def _add_bench(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "measure what the surrogates cost beside the training step"
    parser = commands.add_parser("bench", help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a study whose network and batch size are measured, on colour images unless it says"
        " data.channels (default: the published VGG11 split)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
    for option, default, meaning in (
        ("--samples", 50_000, "features of the epoch-end fits"),
        ("--repeats", 15, "timed calls of each surrogate"),
        ("--threads", 1, "threads on the CPU"),
    ):
        parser.add_argument(
            option,
            type=_positive,
            default=default,
            metavar="N",
            help=f"{meaning} (default: %(default)s)",
        )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="cpu", help="default: %(default)s"
    )
    parser.set_defaults(command=_bench)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _plan(options: argparse.Namespace) -> "Plan":
    from cemlib.config import load
    from cemlib.plan import Plan

    return Plan(load(options.config))


def _device(options: argparse.Namespace) -> "torch.device":
    import torch

    from cemlib.config import ConfigError

    usable = torch.cuda.is_available()
    if options.device == "cuda" and not usable:
        raise ConfigError("--device cuda: torch finds no usable CUDA device; use --device cpu")
    return torch.device("cuda" if usable and options.device != "cpu" else "cpu")


def _prepare(options: argparse.Namespace) -> Iterator[Path]:
    from cemlib.data.prepare import prepare
    from cemlib.data.prepared import save

    plan = _plan(options)
    save(prepare(plan.study.data), plan.layout.data)
    yield plan.layout.prepared
    yield plan.layout.prepared_facts


def _train(options: argparse.Namespace) -> Iterator[Path | str]:
    from cemlib.training.job import TrainJob, run

    plan = _plan(options)
    for defence, seed in plan.trainings(options.defence, options.seed):
        job = TrainJob(plan, defence, seed, _device(options))
        metrics = run(job)
        if metrics["status"] == "failed":
            yield f"failed: {job.name}: {metrics['reason']}"
        yield job.folder.metrics


def _attack(options: argparse.Namespace) -> Iterator[Path]:
    from cemlib.evaluation.job import AttackJob, run

    plan = _plan(options)
    attacks = [plan.known_attack(name) for name in options.attack or plan.study.attacks]
    for defence in plan.defences(options.defence):
        for seed in plan.seeds(options.seed):
            for folder in run(AttackJob(plan, defence, seed, attacks, _device(options))):
                yield folder.metrics


def _report(options: argparse.Namespace) -> Iterator[Path]:
    from cemlib.report.build import (
        write_cluster_course,
        write_figures,
        write_surrogate_courses,
        write_tables,
    )

    plan = _plan(options)
    defences, scope = plan.defences(options.defence), options.defence or ""
    runs = [run.metrics for run in plan.runs(options.defence)]
    attacks = [attack.metrics for attack in plan.attacks(options.defence)]
    tables, figures = plan.layout.tables / scope, plan.layout.figures / scope
    reference = plan.study.reference if options.defence is None else None
    if options.only in (None, "tables"):
        yield from write_tables(
            plan.layout.root, runs, attacks, tables, defences=defences, reference=reference
        )
    if options.only in (None, "figures"):
        yield from write_figures(runs, attacks, figures, defences=defences)
    if options.only in (None, "cluster_course"):
        yield from write_cluster_course(runs, figures, defences=defences)
    if options.only in (None, "surrogates"):
        drawn = plan.defences_with_surrogate(options.defence)
        yield from write_surrogate_courses(runs, figures, defences=drawn, reference=reference)


def _publish(options: argparse.Namespace) -> Iterator[Path]:
    from cemlib.report.publish import PICTURES, publish

    plan = _plan(options)
    out = Path("results/published") / plan.study.experiment
    command = f"snakemake --cores 2 --configfile {options.config}"
    drawn = [path for path in plan.figures() if path.stem in PICTURES] + plan.surrogate_courses()
    pictures = [path for path in drawn if path.suffix == ".png"]
    yield from publish(plan.metrics(), plan.tables() + pictures, out, command)


def _bench(options: argparse.Namespace) -> Iterator[str]:
    import json
    from dataclasses import replace

    from cemlib.bench import Scale, bench, table

    amounts = {name: getattr(options, name) for name in ("samples", "repeats", "threads")}
    scale = Scale(**amounts, device=_device(options).type)
    if options.config is not None:
        study = _plan(options).study
        scale = replace(
            scale,
            network=study.model.name,
            cut=study.model.cut,
            image_size=study.data.image_size,
            channels=study.data.channels or scale.channels,
            batch=study.train.batch_size,
        )
    figures = bench(scale)
    yield json.dumps(figures, indent=2) if options.json else table(figures)


def _track(options: argparse.Namespace) -> Iterator[str]:
    from cemlib.tracking import Study

    plan = _plan(options)
    figures = [*plan.figures(), *plan.cluster_course(), *plan.surrogate_courses()]
    study = Study(
        plan.layout.root,
        plan.study.experiment,
        run_metrics=[run.metrics for run in plan.runs(options.defence)],
        attack_metrics=[attack.metrics for attack in plan.attacks(options.defence)],
        report_files=[*plan.tables(), *figures],
    )
    yield str(study.watch(options.uri) if options.watch else study.track(options.uri))
