"""The scene of an attack as a study's files set it: the run, the judge, decoders to start from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cemlib.attacks.task import Outcome
from cemlib.checkpoint import Checkpoint
from cemlib.config.study import JUDGE
from cemlib.data.prepared import Prepared, checksum
from cemlib.defences.deployed import Deployed, load_deployed
from cemlib.evaluation.scene import Scene, start_failed
from cemlib.files import FileError, load_tensors, sha256
from cemlib.layout import AttackFolder, RunFolder
from cemlib.plan import Plan
from cemlib.precision import resolve
from cemlib.seal import check_files, read_sealed


@dataclass(frozen=True)
class AttackJob:
    """Some attacks, with every knowledge, on one (defence, seed) of a study."""

    plan: Plan
    defence: str
    seed: int
    attacks: Sequence[str]
    device: torch.device

    @property
    def run(self) -> RunFolder:
        """Folder of the attacked run, which is all that the attack reads of the training."""
        return self.plan.layout.run(self.defence, self.seed)


def check_same_study(plan: Plan, run: RunFolder, defence: str) -> dict[str, Any]:
    """Read a training's metrics.

    Raises:
        FileError: the present configuration and data would not give this run.
    """
    metrics = read_sealed(run.metrics, ("status", "reason", "config", "data_sha256"))
    if metrics["config"] != plan.study.train_slice(defence):
        raise FileError(f"{run.metrics}: trained with other settings; train it again")
    if metrics["data_sha256"] != checksum(plan.layout.data):
        raise FileError(f"{run.metrics}: trained on other prepared data; train it again")
    return metrics


def load_judge(plan: Plan, device: torch.device) -> Deployed:
    """The undefended classifier that recognises reconstructions.

    Raises:
        FileError: there is none, or its training diverged.
    """
    if not plan.layout.judge.metrics.is_file():
        raise FileError(
            f"{plan.layout.judge.metrics}: no such file; `cemlib train --defence judge` trains the"
            " classifier that recognises reconstructions"
        )
    metrics = check_same_study(plan, plan.layout.judge, JUDGE)
    if metrics["status"] != "ok":
        raise FileError(
            f"{plan.layout.judge.metrics}: the undefended judge diverged ({metrics['reason']});"
            " without it no reconstruction can be recognised: change the settings of train"
        )
    return load_deployed(plan.layout.judge, device)


class Stage:
    """The scene of a job's attacks, read from the files of the run and of the judge.

    Attributes:
        scene: The classifiers, the images and what was released.
        weights: SHA-256 of the attacked classifier's weights and of the judge's.
    """

    def __init__(self, job: AttackJob, data: Prepared) -> None:
        self.job, self.plan = job, job.plan
        self.victim = load_deployed(job.run, job.device)
        self.judge = load_judge(job.plan, job.device)
        models = (job.run.model, job.plan.layout.judge.model)
        self.weights = tuple(map(sha256, models))
        self.scene = Scene(job.plan.study, job.defence, job.seed, data, self.victim, self.judge)

    def attempt(self, attack: str, knowledge: str) -> Outcome | str:
        """Carry out one attack; returns what it found, or why it failed."""
        start = self._start(attack, knowledge)
        if isinstance(start, str):
            return start
        return self.scene.attempt(attack, knowledge, self.checkpoint(attack, knowledge), start)

    def _start(self, attack: str, knowledge: str) -> nn.Module | str | None:
        """The trained decoder that an attack begins with; or why there is none."""
        name = self.plan.study.attacks[attack].begins_with
        if name is None:
            return None
        folder = self.job.run.attack(name, knowledge)
        found = read_sealed(folder.metrics, ("status", "reason"))
        if found["status"] != "ok":
            return start_failed(name, found["reason"])
        check_files(folder.metrics, found, [folder.attacker])
        return self._decoder(folder, name)

    def _decoder(self, folder: AttackFolder, attack: str) -> nn.Module:
        try:
            return self.scene.decoder(attack, load_tensors(folder.attacker))
        except RuntimeError as error:
            raise FileError(f"{folder.attacker}: no decoder of this study ({error})") from error

    def checkpoint(self, attack: str, knowledge: str) -> Checkpoint:
        """Where an attack keeps its state, for exactly what it reads and does."""
        job, plan = self.job, self.plan
        settings = plan.study.attacks[attack]
        start, weights = settings.begins_with, settings.foreign_weights
        read = [job.run.attack(start, knowledge).attacker] if start else []
        read += [Path(weights)] if weights else []
        data = checksum(plan.layout.data)
        origin = [data, *self.weights, *map(sha256, read), knowledge, job.device.type]
        origin += [resolve("auto", job.device)]
        place = plan.attack_checkpoint(job.defence, job.seed, attack, "/".join(origin))
        return Checkpoint(place)
