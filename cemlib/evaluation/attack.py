"""Attacks in memory, for a notebook or a program: those of the jobs, without their files."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from cemlib.attacks.task import Outcome
from cemlib.config import Study
from cemlib.data.pixels import to_float
from cemlib.data.prepared import Prepared
from cemlib.evaluation.scene import Scene, start_failed, targets
from cemlib.evaluation.verdict import verdict
from cemlib.numerics.precision import set_up
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.layout import KNOWLEDGES
from cemlib.training.fit import Trained


@dataclass(frozen=True)
class Attacked:
    """What one attack with one knowledge found; tensors are on the CPU.

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


def attack(
    study: Study,
    trained: Trained,
    judge: Trained,
    data: Prepared,
    *,
    knowledges: Sequence[str] = KNOWLEDGES,
) -> list[Attacked]:
    """Carry out all attacks of a study on one classifier in memory; nothing is kept on disk.

    What comes out is, bit for bit, what the attack jobs find on the same run. torch's number of CPU
    threads is set to the study's `threads`, and torch's global random state is changed.

    Args:
        study: The settings, from `cemlib.config.parse`.
        trained: What is attacked, from `cemlib.training.fit.fit`.
        judge: The study's `judge`, trained likewise: it recognises reconstructions.
        data: The data that both were trained on, on the device where they are.
        knowledges: Some of `train_data` and `public_data`.

    Returns:
        One for every attack and knowledge, in this order; one that diverged has a reason.

    Raises:
        DataError: there are too few test images for the `public_data` attacker.
    """
    set_up(data.train.images.device, study.threads)
    scene = Scene(study, trained.defence, trained.seed, data, trained.deployed, judge.deployed)
    found: dict[tuple[str, str], Outcome | str] = {}
    for name in study.attacks:
        for knowledge in knowledges:
            start = study.attacks[name].begins_with
            before = found[start, knowledge] if start is not None else None
            found[name, knowledge] = _attempt(scene, name, knowledge, before)
    return [_attacked(scene, *names, outcome) for names, outcome in found.items()]


def _attempt(
    scene: Scene, name: str, knowledge: str, before: Outcome | str | None
) -> Outcome | str:
    """Carry out one attack, with what the attack that it begins with found."""
    start = scene.study.attacks[name].begins_with
    if start is None or before is None:
        decoder = None
    elif isinstance(before, str):
        return start_failed(start, before)
    else:
        decoder = scene.decoder(start, before.state)
    with TemporaryDirectory() as folder:  # of the trials of a strong budget
        checkpoint = Checkpoint(Path(folder) / "attack", interval=math.inf)
        return scene.attempt(name, knowledge, checkpoint, decoder)


def _attacked(scene: Scene, name: str, knowledge: str, found: Outcome | str) -> Attacked:
    queries = scene.study.attacks[name].releases
    originals = to_float(targets(scene.data, knowledge).images).cpu()
    which = (scene.defence, scene.seed, name, knowledge, queries, originals)
    if isinstance(found, str):
        return Attacked(*which, found)
    scored = verdict(found, scene, knowledge)
    answers = found.reconstructions.float().cpu()
    return Attacked(*which, None, scored.scores, scored.per_image, answers, found.history)
