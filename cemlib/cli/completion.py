"""Names of a study that the shell completes, read from the `--config` and `--set` typed so far."""

import argparse
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from cemlib.records.layout import KNOWLEDGES

if TYPE_CHECKING:
    from cemlib.config import Study

Completer: TypeAlias = Callable[..., Iterable[str]]


def defences(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the names of the defences."""
    return list(_study(parsed_args).defences)


def attacks(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the names of the attacks."""
    return list(_study(parsed_args).attacks)


def jobs(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the names of the jobs of a study of any system."""
    from cemlib.study.systems import read_study

    return [job.name for job in read_study(parsed_args.config, parsed_args.set)[1]]


def runs(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the names of the trainings and of the attacks on them."""
    from cemlib.config.study import JUDGE

    study = _study(parsed_args)
    trained = [f"{name}/seed{seed}" for name in study.defences for seed in study.seeds]
    known = [f"{attack}-{knowledge}" for attack in study.attacks for knowledge in KNOWLEDGES]
    return [JUDGE, *trained, *(f"{run}/{attack}" for run in trained for attack in known)]


def _study(options: argparse.Namespace) -> "Study":
    from cemlib.config import load

    return load(options.config, options.set)
