"""The files of one attack: its scores, every image's, pictures, and what decided them."""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cemlib.attacks.convergence import converged, late_improvement
from cemlib.attacks.task import Outcome
from cemlib.data.pixels import to_float
from cemlib.data.prepared import Prepared, Split
from cemlib.evaluation.pictures import extremes, showcase, write_strip
from cemlib.evaluation.scores import means, per_image, recognised, write_per_image
from cemlib.evaluation.stage import PUBLIC, AttackJob, Stage, first_target
from cemlib.files import save_tensors, write_jsonl
from cemlib.layout import AttackFolder
from cemlib.precision import resolve
from cemlib.provenance import device_name, peak_memory_mb, provenance
from cemlib.seal import write_sealed
from cemlib.seeds import generator


@dataclass(frozen=True)
class Record:
    """Which attack is recorded, and what it was made on."""

    job: AttackJob
    data: Prepared
    attack: str
    knowledge: str

    @property
    def folder(self) -> AttackFolder:
        """Where its files go."""
        return self.job.run.attack(self.attack, self.knowledge)

    @property
    def first(self) -> int:
        """Index of the first test image that was attacked."""
        return first_target(self.knowledge, len(self.data.test))

    def targets(self) -> Split:
        """The images that were attacked, with their labels."""
        test = self.data.test
        return Split(test.images[self.first :], test.labels[self.first :])

    def write_found(self, outcome: Outcome, stage: Stage, start: float) -> None:
        """Write a finished attack that began at `start`."""
        targets, answers = to_float(self.targets().images), outcome.reconstructions.float()
        known = self._recognised(answers, stage)
        scores = per_image(targets.cpu(), answers.cpu())
        self._write(outcome, scores | {"recognised": known["recon_top1"].cpu()}, answers.cpu())
        shares = {name: right.float().mean().item() for name, right in known.items()}
        curve = [row["val_mse"] for row in outcome.history]
        weights = dict(zip(ATTACKED, stage.weights, strict=True))
        self._write_metrics(None, means(scores) | shares | _convergence(curve) | weights, start)

    def write_failed(self, reason: str, start: float) -> None:
        """Write an attack without a result: no scores, and grey pictures."""
        grey = torch.full(self.targets().images.shape, 0.5)
        scores = per_image(grey[:0], grey[:0])
        self._write(Outcome(grey, {}), scores | {"recognised": torch.zeros(0).bool()}, grey)
        nothing = dict.fromkeys((*RECOGNITION, *_convergence([]), *ATTACKED))
        self._write_metrics(reason, means(scores) | nothing, start)

    def _recognised(self, answers: Tensor, stage: Stage) -> dict[str, Tensor]:
        """Whether each reconstruction, and each original by the judge, is put in its class."""
        judge, victim, split = stage.judge, stage.victim, self.targets()
        noise = generator(self.job.seed, f"recognition/{self.knowledge}")
        found = (
            recognised(judge, answers, split.labels, noise),
            recognised(victim, answers, split.labels, noise),
            recognised(judge, split.images, split.labels, noise),
        )
        return dict(zip(RECOGNITION, found, strict=True))

    def _write(self, outcome: Outcome, scores: dict[str, Tensor], answers: Tensor) -> None:
        self.folder.metrics.unlink(missing_ok=True)  # those of an older attack vouch for its files
        save_tensors(self.folder.attacker, outcome.state)
        write_jsonl(self.folder.history, outcome.history)
        labels = self.data.test.labels.cpu()
        write_per_image(self.folder.per_image, self.first, labels, scores)
        shown = [i - self.first for i in showcase(labels, int(PUBLIC * len(labels)))]
        ends = extremes(scores["mse"]) or shown
        originals = self.targets().images.cpu()
        for path, rows in ((self.folder.reconstructions, shown), (self.folder.extremes, ends)):
            write_strip(path, to_float(originals[rows]), answers[rows])

    def _write_metrics(self, reason: str | None, scores: dict[str, Any], start: float) -> None:
        """Metrics come last: a folder with metrics is a whole attack."""
        metrics = self._metrics(reason, scores) | {"wall_seconds": time.perf_counter() - start}
        others = [file for file in self.folder.files() if file != self.folder.metrics]
        write_sealed(self.folder.metrics, metrics, others)

    def _metrics(self, reason: str | None, scores: dict[str, Any]) -> dict[str, Any]:
        job, study = self.job, self.job.plan.study
        files = job.plan.attack_sources(job.defence, self.attack)
        return {
            "kind": "attack",
            "status": "ok" if reason is None else "failed",
            "reason": reason,
            "experiment": study.experiment,
            "defence": job.defence,
            "seed": job.seed,
            "attack": self.attack,
            "knowledge": self.knowledge,
            "queries": study.attacks[self.attack].releases,
            "precision": resolve(study.attacks[self.attack].arithmetic, job.device),
            **scores,
            "n_images": len(self.targets()) if reason is None else 0,
            "config": study.attack_slice(job.defence, self.attack),
            "provenance": provenance(files, device_name(job.device.type), study.threads),
            "peak_memory_mb": peak_memory_mb(),
        }


RECOGNITION = ("recon_top1", "recon_top1_victim", "judge_top1")
ATTACKED = ("model_sha256", "judge_sha256")


def _convergence(curve: list[float]) -> dict[str, Any]:
    """Whether a learned attack still improved on the images it held out; None without a curve."""
    if not curve:
        return {"late_improvement": None, "converged": None}
    return {"late_improvement": late_improvement(curve), "converged": converged(curve)}
