"""What an attacker finds: the deployed classifier, the images it owns, and what was released."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cemlib.attacks import ATTACKS
from cemlib.attacks.start import load_decoder
from cemlib.attacks.task import Outcome, Pairs, Task
from cemlib.checkpoint import Checkpoint
from cemlib.config.study import JUDGE
from cemlib.data.prepared import Prepared, checksum
from cemlib.defences.deployed import Deployed, load_deployed
from cemlib.errors import DivergedError
from cemlib.files import FileError, load_tensors, sha256
from cemlib.layout import AttackFolder, RunFolder
from cemlib.models.decoder import Decoder
from cemlib.plan import Plan
from cemlib.precision import resolve
from cemlib.seal import check_files, read_sealed
from cemlib.seeds import derive, generator

PUBLIC = 0.9  # share of the test images that the public_data attacker owns
HELD_OUT = 0.1  # share of those that it holds out of its training
FEWEST = 2  # images that a decoder can be trained on


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
        """Folder of the attacked run: all that the attack reads of the training."""
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


def first_target(knowledge: str, test_images: int) -> int:
    """Index of the first test image that is attacked: all of them, or the last tenth."""
    return 0 if knowledge == "train_data" else int(PUBLIC * test_images)


class Stage:
    """Images and clean features of every split, computed once for all attacks of the job.

    Attributes:
        weights: SHA-256 of the attacked classifier's weights and of the judge's.
    """

    def __init__(self, job: AttackJob, data: Prepared) -> None:
        self.job, self.plan = job, job.plan
        self.victim = load_deployed(job.run, job.device)
        self.judge = load_judge(job.plan, job.device)
        models = (job.run.model, job.plan.layout.judge.model)
        self.weights = tuple(map(sha256, models))
        splits = data.parts().items()
        self.pairs = {n: Pairs(s.images, self.victim.features(s.images)) for n, s in splits}

    def owned(self, knowledge: str) -> tuple[Pairs, Pairs]:
        """What the attacker trains on, and what it holds out to see how well it does.

        With `train_data` these are the victim's training and validation images; with
        `public_data` nine and one tenth of the first 90 % of the test images.
        """
        if knowledge == "train_data":
            return self.pairs["train"], self.pairs["val"]
        test = self.pairs["test"]
        end = first_target(knowledge, len(test.images))
        cut = int((1 - HELD_OUT) * end)
        if cut < FEWEST:
            raise FileError(
                f"{self.plan.layout.prepared}: {len(test.images)} test images leave the public_data"
                f" attacker {cut} to train on, {FEWEST} are needed; raise data.test_limit or"
                " data.test_fraction, or add images"
            )
        return test.part(slice(cut)), test.part(slice(cut, end))

    def attempt(self, attack: str, knowledge: str) -> Outcome | str:
        """Carry out one attack; returns what it found, or why it failed."""
        start = self._start(attack, knowledge)
        if isinstance(start, str):
            return start
        task = self._task(attack, knowledge, start)
        try:
            return ATTACKS[self.plan.study.attacks[attack].kind](task)
        except DivergedError as error:
            return str(error)

    def _task(self, attack: str, knowledge: str, start: Decoder | None) -> Task:
        """The attack's task; one release of the targets is the same for every attack of a seed."""
        job, options = self.job, self.plan.study.attacks[attack].model_dump()
        own, held_out = self.owned(knowledge)
        return Task(
            victim=self.victim,
            own=own,
            held_out=held_out,
            released=self._released(knowledge, options.get("queries", 1)),
            options=options,
            seed=derive(job.seed, f"attack/{attack}/{knowledge}"),
            title=f"{attack} {knowledge} on {job.defence} seed{job.seed}",
            checkpoint=self.checkpoint(attack, knowledge),
            judge=self.judge.model,
            start=start,
        )

    def _released(self, knowledge: str, queries: int) -> Tensor:
        test = self.pairs["test"].features
        targets = test[first_target(knowledge, len(test)) :]
        noise = generator(self.job.seed, f"target/{knowledge}")
        return self.victim.channel(targets, noise, queries=queries)

    def _start(self, attack: str, knowledge: str) -> Decoder | str | None:
        """The trained decoder that an attack begins with; or why there is none."""
        name = self.plan.study.attacks[attack].begins_with
        if name is None:
            return None
        folder = self.job.run.attack(name, knowledge)
        found = read_sealed(folder.metrics, ("status", "reason"))
        if found["status"] != "ok":
            return f"the attack it starts from failed: {name}: {found['reason']}"
        check_files(folder.metrics, found, [folder.attacker])
        return self._decoder(folder, name)

    def _decoder(self, folder: AttackFolder, attack: str) -> Decoder:
        options = self.plan.study.attacks[attack].model_dump()
        test = self.pairs["test"]
        state, shape = load_tensors(folder.attacker), self.victim.model.feature_shape
        try:
            model = load_decoder(state, options, shape, test.image_shape)
        except RuntimeError as error:
            raise FileError(f"{folder.attacker}: no decoder of this study ({error})") from error
        return model.to(self.job.device).to(memory_format=torch.channels_last)

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
