"""Attacks in memory, for a notebook or a program, and the table of their results."""

import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import torch

from cemlib.attacks.task import Outcome
from cemlib.config import Study
from cemlib.data.prepared import Prepared
from cemlib.evaluation.scene import Scene, start_failed
from cemlib.evaluation.scores import NAMES, Attacked, scored
from cemlib.numerics.precision import set_up
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.layout import KNOWLEDGES
from cemlib.records.scores import UNBOUNDED
from cemlib.report.tables import ATTACK_COLUMNS, RUN_COLUMNS, summary_table
from cemlib.training.fit import Trained

__all__ = ["Attacked", "attack", "table"]


@torch.enable_grad()
def attack(
    study: Study,
    trained: Trained,
    judge: Trained,
    data: Prepared,
    *,
    knowledges: Sequence[str] = KNOWLEDGES,
) -> list[Attacked]:
    """Return the results of all attacks of a study on one classifier, by attack and knowledge.

    No file is written. On a CPU the results are, bit for bit, those of the attack jobs on the same
    run. The state of torch is changed as by `cemlib.training.fit.fit`.

    Args:
        study: The settings, from `cemlib.config.parse`.
        trained: The classifier to attack, from `cemlib.training.fit.fit`.
        judge: The study's `judge`, trained likewise, which recognises reconstructions.
        data: The data that both were trained on, on their device.
        knowledges: `train_data`, `public_data` or both.

    Raises:
        ValueError: if there is no such knowledge, or `perceptual` finds no layer to compare.
        DataError: if an attacker would have too few images to train on.
    """
    if isinstance(knowledges, str) or not {*knowledges} <= {*KNOWLEDGES}:
        raise ValueError(f"knowledges: {knowledges!r}; give a list of some of {KNOWLEDGES}")
    set_up(data.train.images.device, study.threads)
    scene = Scene(study, trained.defence, trained.seed, data, trained.deployed, judge.deployed)
    for knowledge in knowledges:
        scene.owned(knowledge)  # too few images are an error before the first attack
    found: dict[tuple[str, str], Attacked] = {}
    for name in study.attacks:
        for knowledge in knowledges:
            outcome = _attempt(scene, name, knowledge, found)
            found[name, knowledge] = scored(scene, name, knowledge, outcome)
    return list(found.values())


def _attempt(
    scene: Scene, name: str, knowledge: str, found: dict[tuple[str, str], Attacked]
) -> Outcome | str:
    """Carry out one attack, which may begin with the decoder of one that was found before."""
    start, decoder = scene.study.attacks[name].begins_with, None
    if start is not None:
        before = found[start, knowledge]
        if before.reason is not None:
            return start_failed(start, before.reason)
        decoder = scene.decoder(start, before.state)
    with TemporaryDirectory() as folder:  # for the trials of a strong budget
        checkpoint = Checkpoint(Path(folder) / "attack", interval=math.inf)
        return scene.attempt(name, knowledge, checkpoint, decoder)


def table(trained: Sequence[Trained], attacked: Sequence[Attacked]) -> pd.DataFrame:
    """Return means over seeds with 95 % intervals, as in a study's `summary.csv`.

    There is a row per defence, attack and knowledge, and `worst_case` rows, in the order of the
    classifiers `trained`, with the columns of `cemlib.report.tables.summary_table`:
    `<score>_mean`, `<score>_ci_low`, `<score>_ci_high` of top1, leakage_nats, mse, ssim, psnr and
    recon_top1. Intervals need two seeds or more.

    Raises:
        ValueError: if there is no attack, or its defence is not among the classifiers.
    """
    runs = pd.DataFrame([_run(each) for each in trained], columns=RUN_COLUMNS)
    attacks = pd.DataFrame([_attack(each) for each in attacked], columns=ATTACK_COLUMNS)
    return summary_table(runs, attacks, list(dict.fromkeys(runs["defence"])))


def _run(trained: Trained) -> dict[str, Any]:
    names = {"defence": trained.defence, "seed": trained.seed, "status": "ok", "reason": ""}
    chosen = {"selected_epoch": trained.epoch, "selected_on": trained.selected_on}
    return names | chosen | trained.scores


def _attack(attacked: Attacked) -> dict[str, Any]:
    row = {name: getattr(attacked, name) for name in NAMES}
    if attacked.reason is not None:
        return row | {"status": "failed", "reason": attacked.reason}
    infinite = {name: math.inf for name in UNBOUNDED if attacked.scores.get(name, 0) is None}
    row |= {"status": "ok", "reason": "", "n_images": len(attacked.originals)}
    return row | attacked.scores | infinite
