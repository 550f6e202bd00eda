"""What an attack's answers are worth: every image's scores and their means."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from cemlib.attacks.convergence import converged, late_improvement
from cemlib.attacks.task import Outcome
from cemlib.data.pixels import to_float
from cemlib.evaluation.scene import Scene, targets
from cemlib.evaluation.scores import means, per_image


@dataclass(frozen=True)
class Verdict:
    """Scores of one attack.

    Attributes:
        per_image: (N,) by the names of `cemlib.evaluation.scores.MEASURES`, and `recognised`.
        scores: Their means, the shares that were recognised, and whether the attack had converged.
    """

    per_image: dict[str, Tensor]
    scores: dict[str, Any]


def verdict(outcome: Outcome, scene: Scene, knowledge: str) -> Verdict:
    """Score a finished attack on its scene; the tensors are on the CPU."""
    answers = outcome.reconstructions.float()
    known = scene.recognition(answers, knowledge)
    originals = to_float(targets(scene.data, knowledge).images)
    scores = per_image(originals.cpu(), answers.cpu())
    shares = {name: right.float().mean().item() for name, right in known.items()}
    curve = [row["val_mse"] for row in outcome.history]
    together = means(scores) | shares | convergence(curve)
    return Verdict(scores | {"recognised": known["recon_top1"].cpu()}, together)


def convergence(curve: list[float]) -> dict[str, Any]:
    """Tell whether a learned attack still improved on held-out images; None without a curve."""
    if not curve:
        return {"late_improvement": None, "converged": None}
    return {"late_improvement": late_improvement(curve), "converged": converged(curve)}
