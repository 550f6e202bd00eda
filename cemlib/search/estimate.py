"""What a study will take of time and memory, extrapolated from a few real steps of its jobs.

Each kind of job is built from the study's own data and settings in a process of its own, and takes
a few steps there. So whatever a configuration can name is measured by what it does.
"""

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from multiprocessing import get_context

import torch

from cemlib.config.study import Study
from cemlib.records.provenance import peak_memory_mb
from cemlib.search.costs import attack_seconds, seconds_of, train_seconds
from cemlib.study.environment import set_for_jobs
from cemlib.study.finished import finished, run_job
from cemlib.study.plan import Plan
from cemlib.study.schedule import StudyError
from cemlib.study.split import PARTS, SplitJob, jobs

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
    kinds: dict[str, list[SplitJob]] = {}
    for job in jobs(plan, device):
        if job.kind not in PARTS and not (job.kind == "prepare" and finished(job)):
            kinds.setdefault(_label(job), []).append(job)
    rows = []
    for kind, alike in kinds.items():
        say(kind)
        rows.append(Row(kind, len(alike), *_in_child(kind, alike[0])))
    return rows


def _label(job: SplitJob) -> str:
    """Return what a job shares with those that cost as much: the defence trained, or the attack."""
    kind, *names = job.name.split("/")
    return " ".join([kind, *(names[-1:] if kind == "attack" else names[:1])])


def _in_child(kind: str, job: SplitJob) -> tuple[float, float, float]:
    """Measure seconds and peaks of a job in a new process: a peak is of a whole process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as child:
        try:
            return child.submit(_measured, job, time.time()).result()
        except BrokenProcessPool as error:
            fault = f"{kind}: its process died: killed, perhaps for want of memory"
            raise StudyError(fault) from error


def _measured(job: SplitJob, born: float) -> tuple[float, float, float]:
    """Measure a job in this process; `born` is when that was asked for, before all imports."""
    started = time.time() - born
    with redirect_stderr(StringIO()):  # the progress of a few steps would mislead
        seconds = _SECONDS[job.kind](job)
    return started + seconds, peak_memory_mb(), torch.cuda.max_memory_allocated() / MIB


def _prepare_seconds(job: SplitJob) -> float:
    """Prepare a study's data and return the seconds that it took."""
    return seconds_of(lambda: list(run_job(job)))


_SECONDS: dict[str, Callable[[SplitJob], float]] = {
    "prepare": _prepare_seconds,
    "judge": train_seconds,
    "train": train_seconds,
    "attack": attack_seconds,
    "attack_closed_form": attack_seconds,
}
"""What measures a job of each kind."""
