"""Extrapolate the time and memory that a study will take from a few real steps of its jobs.

A training is measured by a few steps of its first epoch and of its last, in which the surrogate
acts, and by all that follows the steps of an epoch; the slower of the two epochs stands for all. A
learned attack runs for a few epochs on a share of its images, and its time is assumed to be
proportional to both. Encoding, scoring and attacks in closed form run in full. An attack that
starts from a decoder is measured without undoing a sparse coding. Attacks are measured on the first
defence of each network before its training, since a trained network takes as long.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import torch
from torch import nn

from cemlib.attacks import ATTACKS
from cemlib.attacks.budget import budgeted, untrained
from cemlib.attacks.decoder import decoder
from cemlib.attacks.denoiser import denoising
from cemlib.attacks.task import Outcome, Task
from cemlib.config.study import JUDGE, JUDGE_SEED, Study
from cemlib.evaluation.job import read_data
from cemlib.evaluation.scene import FEWEST, Scene, targets
from cemlib.evaluation.scores import scored
from cemlib.numerics.divergence import DivergedError
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.layout import KNOWLEDGES
from cemlib.records.provenance import peak_memory_mb
from cemlib.study.environment import set_for_jobs
from cemlib.study.finished import finished
from cemlib.study.job import find_device, prepare_job
from cemlib.study.plan import Plan
from cemlib.study.running import run_job
from cemlib.study.schedule import StudyError
from cemlib.study.split import PARTS, SplitJob, jobs
from cemlib.training.job import new_trainer
from cemlib.training.step import Rates, Step
from cemlib.training.trainer import Trainer

ENOUGH = 2.0  # seconds of measured work
STEPS = 10  # of an epoch, at most
EPOCHS = 3  # of an attack: a strong budget tries three rates, for a third of the epochs each
DESCENT = 100  # steps of a search on a GPU, which calls the first ones and replays the others
BATCH = 256  # images at first, for an attack without an option `batch_size`
LENGTHS = ("epochs", "iterations")  # options that set how long an attack runs


@dataclass(frozen=True)
class Cost:
    """The cost of each job of one kind."""

    kind: str  # with the name of the defence or the attack
    jobs: int  # of this kind
    seconds: float  # wall time of one, with the start of its process
    host: float  # peak resident memory of its process in MiB
    card: float  # peak memory of torch's tensors on the GPU in MiB


def estimate(plan: Plan[Study], say: Callable[[str], None]) -> list[Cost]:
    """Measure every kind of job of a study; `say` is called with a line before each.

    No file of the study changes: data not prepared yet are prepared in a temporary folder.

    Raises:
        DataError: if the images are missing.
        ConfigError: if there is no such device, or a network, a defence or an attack cannot be
            built as configured.
        StudyError: if the process of a job died.
    """
    find_device(plan.device)  # so that an error comes before any job
    set_for_jobs(plan.study.threads)
    if finished(prepare_job(plan)):
        return _costs(plan, say)
    with TemporaryDirectory() as folder:
        own = plan.study.model_copy(update={"results": folder})
        return _costs(replace(plan, study=own), say)


def _costs(plan: Plan[Study], say: Callable[[str], None]) -> list[Cost]:
    kinds: dict[tuple[str, str], list[SplitJob]] = {}
    for job in jobs(plan):
        if job.kind not in PARTS and not (job.kind == "prepare" and finished(job)):
            network = str((job.parts or (job,))[0].settings.get("model"))
            kinds.setdefault((_label(job), network), []).append(job)
    times, costs = Counter(label for label, _ in kinds), []
    for (label, _), alike in kinds.items():
        # The cost of an attack depends on the network, which a defence may change.
        kind = label if times[label] == 1 else f"{label} on {alike[0].of['defence']}"
        say(f"measuring: {kind}")
        costs.append(Cost(kind, len(alike), *_in_new_process(kind, alike[0])))
    return costs


def _label(job: SplitJob) -> str:
    """Return the name that jobs of the same cost share."""
    kind, *names = job.name.split("/")
    return " ".join([kind, *(names[-1:] if kind == "attack" else names[:1])])


def _in_new_process(kind: str, job: SplitJob) -> tuple[float, float, float]:
    """Measure a job in a new process, since peak memory is that of a whole process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as child:
        try:
            return child.submit(_measured, job, time.time()).result()
        except BrokenProcessPool as error:
            fault = f"{kind}: its process died; it was perhaps killed for lack of memory"
            raise StudyError(fault) from error


def _measured(job: SplitJob, asked: float) -> tuple[float, float, float]:
    """Return the seconds and both memory peaks of a job; `asked` is when it was submitted."""
    started = time.time() - asked
    with redirect_stderr(StringIO()):  # progress of a few steps would mislead
        if job.kind == "prepare":
            seconds = seconds_of(lambda: list(run_job(job)))
        else:
            seconds = (train_seconds if job.kind in (JUDGE, "train") else attack_seconds)(job)
    return started + seconds, peak_memory_mb(), torch.cuda.max_memory_allocated() / 2**20


def train_seconds(job: SplitJob) -> float:
    """Return the seconds of one training."""
    start = _clock()
    trainer = new_trainer(job.plan.study, job.of["defence"], job.of["seed"], read_data(job))
    begun, epochs, slowest = _clock() - start, trainer.settings.epochs, 0.0
    with suppress(DivergedError):  # the job would end here too
        for number in sorted({1, epochs}):
            slowest = max(slowest, epoch_seconds(trainer, number))
        begun += seconds_of(trainer.selection.final_scores)
    return begun + epochs * slowest


def epoch_seconds(trainer: Trainer, number: int) -> float:
    """Return the seconds that an epoch would take, estimated from its first few steps."""
    trainer.prune_before(number)  # it would replace the steps
    trainer.step = steps = FewSteps(trainer)
    if steps.device.type == "cuda":  # libraries start, and graphs are captured, once in a training
        trainer.epoch(number)
        steps.first, steps.seconds = 0, []
    return seconds_of(lambda: trainer.epoch(number)) + steps.not_counted()


class FewSteps(Step):
    """Takes and times the first few steps of an epoch, and leaves out the others."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(trainer.defended, trainer.batches, trainer.settings, trainer.seed)
        self.first = 1  # steps that are slower
        self.seconds: list[float] = []

    def __call__(self, size: int, rates: Rates) -> None:
        """Train on a batch of that size, or leave it out."""
        timed = self.seconds[self.first :]
        if len(timed) < STEPS and sum(timed) < ENOUGH:
            self.seconds.append(seconds_of(partial(super().__call__, size, rates)))

    def not_counted(self) -> float:
        """Return the seconds that all steps take at the pace of the later ones, less those taken.

        What makes the first steps slower happens once in a training, and not in every epoch.
        """
        each = fmean(self.seconds[self.first :] or self.seconds[-1:])
        return each * len(self.batches.sizes) - sum(self.seconds)


def attack_seconds(job: SplitJob) -> float:
    """Return the seconds of the attacks of one job, with every knowledge."""
    start = _clock()
    data, study, seed = read_data(job), job.plan.study, job.of["seed"]
    victim = new_trainer(study, job.of["defence"], seed, data).deployed
    judge = new_trainer(study, JUDGE, JUDGE_SEED, data).deployed
    judge.model.eval()
    scene = Scene(study, job.of["defence"], seed, data, victim, judge)
    scene.owned(KNOWLEDGES[0])  # encodes all images, once for all attacks
    seconds = _clock() - start
    names = [part.of["attack"] for part in job.parts or (job,)]
    for name, knowledge in product(names, KNOWLEDGES):
        task = scene.task(name, knowledge, Checkpoint(Path()), _decoder(scene, name))
        seconds += run_seconds(ATTACKS[study.attacks[name].kind], task)
        grey = torch.full_like(targets(data, knowledge).images, 0.5, dtype=torch.float32)
        seconds += seconds_of(partial(scored, scene, name, knowledge, Outcome(grey, {})))
    return seconds


def _decoder(scene: Scene, attack: str) -> nn.Module | None:
    """Return the untrained decoder that an attack begins with, if it does."""
    before = scene.study.attacks[attack].begins_with
    if before is None:
        return None
    options, shape = scene.study.attacks[before].model_dump(), scene.victim.model.feature_shape
    masked = scene.victim.channel.masks
    network = untrained(budgeted(options), shape, scene.data.image_shape, masked=masked)
    return scene.decoder(before, network.state_dict())


def run_seconds(attack: Callable[[Task], Outcome], task: Task) -> float:
    """Return the seconds of an attack, estimated from a share of its images that takes a while.

    An attack with none of the options `LENGTHS` is in closed form, and runs on all images. The
    training of a denoiser is measured as that of a `decoder`; its passes in the steps that follow
    are not counted.
    """
    if task.options.get("denoiser_weight"):
        training = denoising(task, task.options["denoiser_noise"])
        training = replace(training, options={**training.options, "budget": "standard"})
        without = replace(task, options={**task.options, "denoiser_weight": 0.0})
        return run_seconds(decoder, training) + run_seconds(attack, without)
    key = next((name for name in LENGTHS if name in task.options), None)
    if key is None:
        return seconds_of(partial(_try, attack, task, 1.0, {}))
    epochs = int(task.options[key])
    on_gpu = task.own.features.is_cuda
    few = min(epochs, DESCENT if on_gpu and key == "iterations" else EPOCHS)
    share: float = min(1.0, task.options.get("batch_size", BATCH) / len(task.own.images))
    while True:
        if on_gpu:  # cuDNN tries its algorithms once for every shape, which is not to be multiplied
            _try(attack, task, share, {key: few})
        seconds = seconds_of(partial(_try, attack, task, share, {key: few}))
        if seconds >= ENOUGH or share == 1:
            return seconds / share * epochs / few
        share = min(1.0, 2 * share)


def _try(
    attack: Callable[[Task], Outcome], task: Task, share: float, options: dict[str, int]
) -> None:
    """Run an attack on a share of all its images, with some other options."""
    own, held_out, released = (
        slice(max(FEWEST, math.ceil(share * len(images))))
        for images in (task.own.images, task.held_out.images, task.released)
    )
    with TemporaryDirectory() as folder, suppress(DivergedError):  # too few steps may diverge
        attack(
            replace(
                task,
                own=task.own.part(own),
                held_out=task.held_out.part(held_out),
                released=task.released[released],
                options={**task.options, **options},
                checkpoint=Checkpoint(Path(folder), math.inf),
            )
        )


def seconds_of(work: Callable[[], object]) -> float:
    """Call a function and return the seconds that it took."""
    start = _clock()
    work()
    return _clock() - start


def _clock() -> float:
    """Wait until the GPU has finished its work, and return the time."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    return time.perf_counter()
