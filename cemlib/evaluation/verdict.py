"""Score what an attack found: every image, their means, and whether the attack had converged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from cemlib.attacks.convergence import converged, late_improvement
from cemlib.attacks.task import Outcome
from cemlib.data.pixels import to_float
from cemlib.evaluation.scene import Scene, targets
from cemlib.evaluation.scores import means, per_image


@dataclass(frozen=True)
class Attacked:
    """The scored result of one attack with one knowledge; tensors are on the CPU.

    Attributes:
        defence: Name of the attacked defence.
        seed: Of the attacked run.
        attack: Name of the attack in the study.
        knowledge: `train_data` or `public_data`.
        queries: Releases of the same image that it saw.
        originals: The attacked images (N, C, H, W) in [0, 1].
        reason: Why it failed; then it has no scores and no reconstructions. None if it did not.
        scores: As in an attack's `metrics.json`: `mse`, `psnr`, `ssim`, `recon_top1`, ...
        per_image: (N,) each: `mse`, `psnr`, `ssim`, `ssim_valid`, and `recognised`.
        reconstructions: (N, C, H, W) in [0, 1], or None.
        history: The learning curve, empty for a closed-form attack.
        state: The attacker's own tensors, empty where it failed.
    """

    defence: str
    seed: int
    attack: str
    knowledge: str
    queries: int
    originals: Tensor
    reason: str | None
    scores: dict[str, Any] = field(default_factory=dict)
    per_image: dict[str, Tensor] = field(default_factory=dict)
    reconstructions: Tensor | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    state: Mapping[str, Tensor] = field(default_factory=dict)


def verdict(scene: Scene, attack: str, knowledge: str, found: Outcome | str) -> Attacked:
    """Score what an attack found on its scene, or say why it failed."""
    queries, images = scene.study.attacks[attack].releases, targets(scene.data, knowledge).images
    originals = to_float(images).cpu()
    which = (scene.defence, scene.seed, attack, knowledge, queries, originals)
    if isinstance(found, str):
        return Attacked(*which, found)
    answers = found.reconstructions.float()
    known = scene.recognition(answers, knowledge)
    scores = per_image(originals, answers.cpu())
    shares = {name: right.float().mean().item() for name, right in known.items()}
    curve = convergence([row["val_mse"] for row in found.history])
    columns = scores | {"recognised": known["recon_top1"].cpu()}
    together = means(scores) | shares | curve
    return Attacked(*which, None, together, columns, answers.cpu(), found.history, found.state)


def convergence(curve: list[float]) -> dict[str, Any]:
    """Tell whether a learned attack still improved on held-out images; None without a curve."""
    if not curve:
        return {"late_improvement": None, "converged": None}
    return {"late_improvement": late_improvement(curve), "converged": converged(curve)}
