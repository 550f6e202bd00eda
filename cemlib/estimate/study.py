"""Every kind of job of a study, measured in a process of its own."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import partial
from io import StringIO
from multiprocessing import get_context

import torch

from cemlib.config.study import JUDGE, JUDGE_SEED, Study
from cemlib.estimate.attacks import attack_seconds
from cemlib.estimate.training import seconds_of, train_seconds
from cemlib.records.provenance import peak_memory_mb
from cemlib.study.environment import set_for_jobs
from cemlib.study.finished import finished, run_job
from cemlib.study.job import prepare_job
from cemlib.study.plan import Plan
from cemlib.study.schedule import StudyError

MIB = 2**20


@dataclass(frozen=True)
class Row:
    """Say what each job of one kind takes."""

    kind: str
    jobs: int  # of this kind
    seconds: float  # of each, with the start of its process
    host: float  # peak resident memory of its process, MiB
    card: float  # peak of torch's tensors on the graphics card, MiB


def estimate(plan: Plan[Study], device: str, say: Callable[[str], None]) -> list[Row]:
    """Measure every kind of job of a study, after preparing its data if they are not.

    `say` is called with the kind that is measured next.

    Raises:
        DataError: if the source's images are not there.
        ConfigError: if a network, a defence or an attack cannot be built as configured.
        StudyError: if the process of a job died.
    """
    set_for_jobs(plan.study.threads)
    rows = []
    for kind, count, job in _kinds(plan, device):
        say(kind)
        rows.append(Row(kind, count, *_in_child(kind, job)))
    return rows


def _kinds(plan: Plan[Study], device: str) -> Iterator[tuple[str, int, Callable[[], float]]]:
    """Yield each kind of job, how many there are, and what measures one."""
    study, seeds = plan.study, plan.study.seeds
    if not finished(prepare_job(plan)):
        yield "prepare", 1, partial(prepare_seconds, plan)
    yield "train judge", 1, partial(train_seconds, plan, JUDGE, JUDGE_SEED, device)
    for name in study.defences:
        yield f"train {name}", len(seeds), partial(train_seconds, plan, name, seeds[0], device)
    attacks = {name: (name,) for name in study.learned_attacks()}
    together = study.closed_form_attacks()
    for label, names in (attacks | ({"closed_form": together} if together else {})).items():
        job = partial(attack_seconds, plan, names, device)
        yield f"attack {label}", len(seeds) * len(study.defences), job


def _in_child(kind: str, job: Callable[[], float]) -> tuple[float, float, float]:
    """Measure seconds and peaks of a job in a new process: a peak is of a whole process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as child:
        try:
            return child.submit(_measured, job, time.time()).result()
        except BrokenProcessPool as error:
            fault = f"{kind}: its process died: killed, perhaps for want of memory"
            raise StudyError(fault) from error


def _measured(job: Callable[[], float], born: float) -> tuple[float, float, float]:
    """Run a job; `born` is when its process was asked for, before all imports."""
    started = time.time() - born
    with redirect_stderr(StringIO()):  # the progress of a few steps would mislead
        seconds = job()
    return started + seconds, peak_memory_mb(), torch.cuda.max_memory_allocated() / MIB


def prepare_seconds(plan: Plan[Study]) -> float:
    """Prepare a study's data and return the seconds that it took."""
    return seconds_of(lambda: list(run_job(prepare_job(plan))))
