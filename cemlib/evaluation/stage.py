"""The scene of an attack, read from a study's files: the run, the judge, decoders to start from."""

from pathlib import Path

import torch
from torch import nn

from cemlib.attacks.task import Outcome
from cemlib.config.study import Study
from cemlib.data.prepared import Prepared, checksum
from cemlib.defences.deployed import Deployed, load_deployed
from cemlib.evaluation.scene import Scene, start_failed
from cemlib.numerics.precision import resolve
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.files import FileError, load_tensors, sha256
from cemlib.records.layout import RunFolder
from cemlib.records.seal import check_files, read_sealed
from cemlib.study.job import Job
from cemlib.study.plan import Plan


def load_judge(plan: Plan[Study], device: torch.device) -> Deployed:
    """Load the undefended classifier that recognises reconstructions.

    Raises:
        FileError: there is none, or its training diverged.
    """
    if not plan.layout.judge.metrics.is_file():
        raise FileError(
            f"{plan.layout.judge.metrics}: no such file; `cemlib train --defence judge` trains the"
            " classifier that recognises reconstructions"
        )
    metrics = read_sealed(plan.layout.judge.metrics, ("status", "reason"))
    if metrics["status"] != "ok":
        raise FileError(
            f"{plan.layout.judge.metrics}: the undefended judge diverged ({metrics['reason']});"
            " without it no reconstruction can be recognised: change the settings of train"
        )
    return load_deployed(plan.layout.judge, device)


class Stage:
    """The scene of attacks on one run, read from the files of the run and of the judge.

    Attributes:
        scene: The classifiers, the images and their release.
        weights: SHA-256 of the attacked classifier's weights and of the judge's.
    """

    def __init__(self, job: Job[Study], data: Prepared) -> None:
        plan, device = job.plan, job.processor()
        self.run = attacked_run(job)
        victim, judge = load_deployed(self.run, device), load_judge(plan, device)
        self.weights = tuple(map(sha256, (self.run.model, plan.layout.judge.model)))
        self.scene = Scene(plan.study, job.of["defence"], job.of["seed"], data, victim, judge)

    def attempt(self, job: Job[Study], knowledge: str) -> Outcome | str:
        """Carry out one attack; return its outcome, or why it failed."""
        attack = job.of["attack"]
        start = self._start(attack, knowledge)
        if isinstance(start, str):
            return start
        return self.scene.attempt(attack, knowledge, self.checkpoint(job, knowledge), start)

    def _start(self, attack: str, knowledge: str) -> nn.Module | str | None:
        """Return the trained decoder that an attack begins with, if any, or why it failed."""
        name = self.scene.study.attacks[attack].begins_with
        if name is None:
            return None
        folder = self.run.attack(name, knowledge)
        found = read_sealed(folder.metrics, ("status", "reason"))
        if found["status"] != "ok":
            return start_failed(name, found["reason"])
        check_files(folder.metrics, found, [folder.attacker])
        try:
            return self.scene.decoder(name, load_tensors(folder.attacker))
        except RuntimeError as error:
            raise FileError(f"{folder.attacker}: no decoder of this study ({error})") from error

    def checkpoint(self, job: Job[Study], knowledge: str) -> Checkpoint:
        """Return an attack's checkpoint, whose name depends on all that the attack reads."""
        settings, device = self.scene.study.attacks[job.of["attack"]], job.processor()
        start, weights = settings.begins_with, settings.foreign_weights
        read = [self.run.attack(start, knowledge).attacker] if start else []
        read += [Path(weights)] if weights else []
        origin = [checksum(job.plan.layout.data), *self.weights, *map(sha256, read), knowledge]
        return Checkpoint(job.checkpoint(*origin, device.type, resolve("auto", device)))


def attacked_run(job: Job[Study]) -> RunFolder:
    """Return the folder of the attacked run; an attack reads nothing else of the training."""
    return job.plan.layout.run(job.of["defence"], job.of["seed"])
