"""The scores of an attack: for every image, their means, and whether the attack had converged."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cemlib.attacks.budget import TOLERANCE, late_improvement
from cemlib.attacks.task import Outcome
from cemlib.data.prepared import to_float
from cemlib.evaluation.scene import Scene, targets
from cemlib.metrics import WINDOW, mse, psnr, psnr_of_mean_mse, ssim
from cemlib.records.files import write_bytes

MEASURES = ("mse", "psnr", "ssim", "ssim_valid")
NAMES = ("defence", "seed", "attack", "knowledge", "queries")  # which attack a result is of


def per_image(originals: Tensor, reconstructions: Tensor) -> dict[str, Tensor]:
    """Return the scores (N,), by the names of `MEASURES`, of images (N, C, H, W) in [0, 1]."""
    pair = originals, reconstructions
    fits = min(originals.shape[-2:]) >= WINDOW
    unknown = originals.new_full((len(originals),), math.nan)
    valid = ssim(*pair, padding="valid") if fits else unknown
    return dict(zip(MEASURES, (mse(*pair), psnr(*pair), ssim(*pair), valid), strict=True))


def means(scores: Mapping[str, Tensor]) -> dict[str, float | None]:
    """Return the mean of every score over the images, and PSNR by the published convention.

    None replaces what is not finite: the mean over no images, an infinite PSNR, or `ssim_valid` of
    images smaller than its window.
    """
    values = {name: column.double().mean().item() for name, column in scores.items()}
    some = len(scores["mse"]) > 0
    values["psnr_of_mean_mse"] = psnr_of_mean_mse(scores["mse"]) if some else math.nan
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def write_per_image(path: Path, first: int, labels: Tensor, scores: Mapping[str, Tensor]) -> None:
    """Write a Parquet file with a row per scored image: index in the test split, label, scores.

    Args:
        path: The file.
        first: Index of the first scored image in the test split.
        labels: Labels of the whole test split.
        scores: (N,) by the names of `MEASURES`, and `recognised` (N,) bool.
    """
    import pyarrow as pa
    from pyarrow import parquet

    def array(values: Tensor) -> "pa.Array":  # pa.array would import pandas: half a second
        row = values.contiguous().numpy()
        kind = pa.from_numpy_dtype(row.dtype)
        bits = np.packbits(row, bitorder="little") if row.dtype == bool else row
        return pa.Array.from_buffers(kind, len(row), [None, pa.py_buffer(bits)])

    rows = torch.arange(first, first + len(scores["mse"]))
    columns = {"index": rows, "label": labels[rows]} | dict(scores)
    content = pa.BufferOutputStream()
    parquet.write_table(pa.table({n: array(v) for n, v in columns.items()}), content)
    write_bytes(path, content.getvalue().to_pybytes())


@dataclass(frozen=True)
class Attacked:
    """The scored result of one attack with one kind of knowledge; tensors are on the CPU.

    Attributes:
        seed: Seed of the attacked run.
        knowledge: `train_data` or `public_data`.
        queries: Number of releases of each image that the attacker saw.
        originals: The attacked images (N, C, H, W) in [0, 1].
        reason: Why it failed, without scores and reconstructions; None if it did not fail.
        scores: As in an attack's `metrics.json`: `mse`, `psnr`, `ssim`, `recon_top1`, ...
        per_image: (N,) each: `mse`, `psnr`, `ssim`, `ssim_valid`, and `recognised`.
        reconstructions: (N, C, H, W) in [0, 1], or None.
        history: The learning curve, empty for a closed-form attack.
        state: The attacker's own tensors, empty if it failed.
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


def scored(scene: Scene, attack: str, knowledge: str, found: Outcome | str) -> Attacked:
    """Score the outcome of an attack on its scene, or record why it failed."""
    queries, images = scene.study.attacks[attack].releases, targets(scene.data, knowledge).images
    originals = to_float(images)
    which = (scene.defence, scene.seed, attack, knowledge, queries, originals.cpu())
    if isinstance(found, str):
        return Attacked(*which, found)
    answers = found.reconstructions.float()
    if not answers.isfinite().all():
        return Attacked(*which, "the reconstructions are not finite")
    known = scene.recognition(answers, knowledge)
    scores = {name: column.cpu() for name, column in per_image(originals, answers).items()}
    shares = {name: right.float().mean().item() for name, right in known.items()}
    curve = convergence([row["val_mse"] for row in found.history])
    columns = scores | {"recognised": known["recon_top1"].cpu()}
    together = means(scores) | shares | curve
    state = {name: tensor.detach().cpu() for name, tensor in found.state.items()}
    return Attacked(*which, None, together, columns, answers.cpu(), found.history, state)


def convergence(curve: list[float]) -> dict[str, Any]:
    """Return from held-out errors whether an attack had converged; None without a curve."""
    if not curve:
        return {"late_improvement": None, "converged": None}
    late = late_improvement(curve)
    return {"late_improvement": late, "converged": late <= TOLERANCE}
