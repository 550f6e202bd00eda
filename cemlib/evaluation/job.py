"""The attack job: every knowledge of some attacks on one finished run."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cemlib.attacks import ATTACKS
from cemlib.attacks.task import Outcome, Pairs, Task
from cemlib.checkpoint import Checkpoint
from cemlib.data.batches import to_float
from cemlib.data.prepared import Prepared, load
from cemlib.defences.deployed import Deployed, load_deployed
from cemlib.errors import DivergedError
from cemlib.evaluation.pictures import showcase, write_strip
from cemlib.evaluation.scores import means, per_image, write_per_image
from cemlib.files import FileError, read_record, save_tensors, sha256, write_json, write_jsonl
from cemlib.layout import KNOWLEDGES, AttackFolder, RunFolder
from cemlib.plan import Plan
from cemlib.provenance import device_name, peak_memory_mb, provenance
from cemlib.seeds import derive, generator

PUBLIC = 0.9  # share of the test images that the public_data attacker owns


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


def run(job: AttackJob) -> Iterator[AttackFolder]:
    """Carry out the job's attacks, yielding each folder when it is written.

    An attack on a failed run, or one that diverges, ends as `failed` with null scores.
    """
    torch.set_num_threads(job.plan.study.threads)
    data = load(job.plan.layout.data).to(job.device)
    metrics = read_record(job.run.metrics, ("status", "reason", "config", "data_sha256"))
    _check_same_study(job, metrics)
    failed = metrics["status"] != "ok"
    stage = None if failed else _Stage(job, data, load_deployed(job.run, job.device))
    for attack in job.attacks:
        for knowledge in KNOWLEDGES:
            record = _Record(job, data, attack, knowledge, job.run.attack(attack, knowledge))
            start = time.perf_counter()
            if stage is None:
                _record(record, f"the attacked run failed: {metrics['reason']}", start)
            else:
                task = stage.task(attack, knowledge)
                _record(record, _attempt(task, job.plan.study.attacks[attack].kind), start)
                task.checkpoint.remove()
            yield record.folder


def _check_same_study(job: AttackJob, metrics: dict[str, Any]) -> None:
    """Refuse a run that the present configuration and data would not give."""
    if metrics["config"] != job.plan.study.train_slice(job.defence):
        raise FileError(f"{job.run.metrics}: trained with other settings; train it again")
    if metrics["data_sha256"] != sha256(job.plan.layout.prepared):
        raise FileError(f"{job.run.metrics}: trained on other prepared data; train it again")


def first_target(knowledge: str, test_images: int) -> int:
    """Index of the first test image that is attacked: all of them, or the last tenth."""
    return 0 if knowledge == "train_data" else int(PUBLIC * test_images)


class _Stage:
    """Images and clean features of every split, computed once for all attacks of the job."""

    def __init__(self, job: AttackJob, data: Prepared, victim: Deployed) -> None:
        self.job, self.victim = job, victim
        splits = data.parts().items()
        self.pairs = {n: Pairs(s.images, victim.features(s.images)) for n, s in splits}

    def own(self, knowledge: str) -> Pairs:
        """The victim's training images, or the first nine tenths of the test images."""
        if knowledge == "train_data":
            return self.pairs["train"]
        test = self.pairs["test"]
        end = first_target(knowledge, len(test.images))
        return Pairs(test.images[:end], test.features[:end])

    def task(self, attack: str, knowledge: str) -> Task:
        """The attack's task; the released targets are the same for every attack of a seed."""
        job, plan, test = self.job, self.job.plan, self.pairs["test"].features
        targets = test[first_target(knowledge, len(test)) :]
        device = job.device.type
        origin = [sha256(plan.layout.prepared), sha256(job.run.model), knowledge, device]
        place = plan.attack_checkpoint(job.defence, job.seed, attack, "/".join(origin))
        return Task(
            victim=self.victim,
            own=self.own(knowledge),
            held_out=self.pairs["val"],
            released=self.victim.channel(targets, generator(job.seed, f"target/{knowledge}")),
            options=plan.study.attacks[attack].model_dump(),
            seed=derive(job.seed, f"attack/{attack}/{knowledge}"),
            title=f"{attack} {knowledge} on {job.defence} seed{job.seed}",
            checkpoint=Checkpoint(place),
        )


def _attempt(task: Task, kind: str) -> Outcome | str:
    """Carry out one attack; returns what it found, or why it failed."""
    try:
        return ATTACKS[kind](task)
    except DivergedError as error:
        return str(error)


@dataclass(frozen=True)
class _Record:
    """What is being recorded, and where."""

    job: AttackJob
    data: Prepared
    attack: str
    knowledge: str
    folder: AttackFolder


def _record(record: _Record, found: Outcome | str, start: float) -> None:
    """Write the attack's files, its metrics last: a folder with metrics is a whole attack."""
    test = record.data.test
    first = first_target(record.knowledge, len(test))
    targets = to_float(test.images[first:]).cpu()
    grey = torch.full_like(targets, 0.5)  # what a failed attack shows
    outcome = Outcome(grey, {}) if isinstance(found, str) else found
    answers = outcome.reconstructions.float().cpu()
    scored = slice(0) if isinstance(found, str) else slice(None)
    scores = per_image(targets[scored], answers[scored])
    save_tensors(record.folder.attacker, outcome.state)
    write_jsonl(record.folder.history, outcome.history)
    write_per_image(record.folder.per_image, first, test.labels.cpu(), scores)
    shown = [i - first for i in showcase(test.labels.cpu(), int(PUBLIC * len(test)))]
    write_strip(record.folder.reconstructions, targets[shown], answers[shown])
    metrics = _metrics(record, found if isinstance(found, str) else None, scores)
    write_json(record.folder.metrics, metrics | {"wall_seconds": time.perf_counter() - start})


def _metrics(record: _Record, fault: str | None, scores: dict[str, Tensor]) -> dict[str, Any]:
    job, study = record.job, record.job.plan.study
    files = job.plan.attack_sources(record.attack)
    return {
        "kind": "attack",
        "status": "ok" if fault is None else "failed",
        "reason": fault,
        "experiment": study.experiment,
        "defence": job.defence,
        "seed": job.seed,
        "attack": record.attack,
        "knowledge": record.knowledge,
        **means(scores),
        "n_images": len(scores["mse"]),
        "config": study.attack_slice(job.defence, record.attack),
        "provenance": provenance(files, device_name(job.device.type), study.threads),
        "peak_memory_mb": peak_memory_mb(),
    }
