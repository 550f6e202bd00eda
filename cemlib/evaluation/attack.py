"""Attacks in memory, for a notebook or a program: those of the jobs, without their files."""

import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from cemlib.attacks.task import Outcome
from cemlib.config import Study
from cemlib.data.prepared import Prepared
from cemlib.evaluation.scene import Scene, start_failed
from cemlib.evaluation.verdict import Attacked, verdict
from cemlib.numerics.precision import set_up
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.layout import KNOWLEDGES
from cemlib.training.fit import Trained

__all__ = ["Attacked", "attack"]


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
    found: dict[tuple[str, str], Attacked] = {}
    for name in study.attacks:
        for knowledge in knowledges:
            start = study.attacks[name].begins_with
            before = found[start, knowledge] if start is not None else None
            outcome = _attempt(scene, name, knowledge, before)
            found[name, knowledge] = verdict(scene, name, knowledge, outcome)
    return list(found.values())


def _attempt(scene: Scene, name: str, knowledge: str, before: Attacked | None) -> Outcome | str:
    """Carry out one attack, with what the attack that it begins with found."""
    decoder = None
    if before is not None and before.reason is not None:
        return start_failed(before.attack, before.reason)
    if before is not None:
        decoder = scene.decoder(before.attack, before.state)
    with TemporaryDirectory() as folder:  # of the trials of a strong budget
        checkpoint = Checkpoint(Path(folder) / "attack", interval=math.inf)
        return scene.attempt(name, knowledge, checkpoint, decoder)
