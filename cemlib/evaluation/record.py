"""The files of one attack: its scores, every image's, pictures, and what decided them."""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cemlib.attacks.task import Outcome
from cemlib.config.study import Study
from cemlib.data.pixels import to_float
from cemlib.data.prepared import Prepared
from cemlib.evaluation.pictures import extremes, showcase, write_strip
from cemlib.evaluation.scene import PUBLIC, RECOGNITION, first_target, targets
from cemlib.evaluation.scores import means, per_image, write_per_image
from cemlib.evaluation.stage import Stage, attacked_run
from cemlib.evaluation.verdict import convergence, verdict
from cemlib.numerics.precision import resolve
from cemlib.records.files import save_tensors, write_jsonl
from cemlib.records.layout import AttackFolder
from cemlib.records.seal import write_sealed
from cemlib.study.job import Job


@dataclass(frozen=True)
class Record:
    """Which attack is recorded, and what it was made on."""

    job: Job[Study]
    data: Prepared
    knowledge: str

    @property
    def folder(self) -> AttackFolder:
        """Return where its files go."""
        return attacked_run(self.job).attack(self.job.of["attack"], self.knowledge)

    @property
    def first(self) -> int:
        """Return the index of the first test image that was attacked."""
        return first_target(self.knowledge, len(self.data.test))

    def write_found(self, outcome: Outcome, stage: Stage, start: float) -> None:
        """Write a finished attack that began at `start`."""
        found = verdict(stage.scene, self.job.of["attack"], self.knowledge, outcome)
        weights = dict(zip(ATTACKED, stage.weights, strict=True))
        self._write(outcome, found.per_image, outcome.reconstructions.float().cpu())
        self._write_metrics(None, found.scores | weights, start)

    def write_failed(self, reason: str, start: float) -> None:
        """Write an attack without a result: no scores, and grey pictures."""
        grey = torch.full(targets(self.data, self.knowledge).images.shape, 0.5)
        scores = per_image(grey[:0], grey[:0])
        self._write(Outcome(grey, {}), scores | {"recognised": torch.zeros(0).bool()}, grey)
        nothing = dict.fromkeys((*RECOGNITION, *convergence([]), *ATTACKED))
        self._write_metrics(reason, means(scores) | nothing, start)

    def _write(self, outcome: Outcome, scores: dict[str, Tensor], answers: Tensor) -> None:
        self.folder.metrics.unlink(missing_ok=True)  # those of an older attack vouch for its files
        save_tensors(self.folder.attacker, outcome.state)
        write_jsonl(self.folder.history, outcome.history)
        labels = self.data.test.labels.cpu()
        write_per_image(self.folder.per_image, self.first, labels, scores)
        shown = [i - self.first for i in showcase(labels, int(PUBLIC * len(labels)))]
        ends = extremes(scores["mse"]) or shown
        originals = targets(self.data, self.knowledge).images.cpu()
        for path, rows in ((self.folder.reconstructions, shown), (self.folder.extremes, ends)):
            write_strip(path, to_float(originals[rows]), answers[rows])

    def _write_metrics(self, reason: str | None, scores: dict[str, Any], start: float) -> None:
        """Write the metrics, which come last: a folder with metrics is a whole attack."""
        metrics = self._metrics(reason, scores) | {"wall_seconds": time.perf_counter() - start}
        others = [file for file in self.folder.files() if file != self.folder.metrics]
        write_sealed(self.folder.metrics, metrics, others)

    def _metrics(self, reason: str | None, scores: dict[str, Any]) -> dict[str, Any]:
        job = self.job
        attack = job.plan.study.attacks[job.of["attack"]]
        return {
            "kind": "attack",
            "defence": job.of["defence"],
            "seed": job.of["seed"],
            "attack": job.of["attack"],
            "knowledge": self.knowledge,
            "queries": attack.releases,
            "precision": resolve(attack.arithmetic, job.processor()),
            **scores,
            "n_images": len(targets(self.data, self.knowledge)) if reason is None else 0,
            **job.record(reason),
        }


ATTACKED = ("model_sha256", "judge_sha256")
