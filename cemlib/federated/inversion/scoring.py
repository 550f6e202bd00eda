"""Score reconstructed images, one row each, and average the scores over images and seeds."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from cemlib.federated.inversion.scene import Scene
from cemlib.federated.inversion.search import Reconstruction
from cemlib.metrics import mse, psnr, ssim
from cemlib.report.statistics import mean_interval, two_level_interval

WORST_CASE = "worst_case"
MEASURES = ("mse", "psnr", "ssim")
TRAINED = "_trained"  # suffix of scores against the image that the gradient is of
SCORES = (*MEASURES, *(name + TRAINED for name in MEASURES))

Row = dict[str, Any]


def matched(answer: Reconstruction, truth: Tensor) -> Reconstruction:
    """Return answers with images in the order of the true ones (P * B, C, H, W); NaN if failed.

    A batch has no order: within each, the assignment of the lowest total squared error is used.
    """
    failed = ~(answer.loss.isfinite() & answer.images.flatten(1).isfinite().all(1))
    images = answer.images.masked_fill(failed[:, None, None, None, None], math.nan)
    pairs = zip(images, truth.view_as(images), strict=True)
    order = torch.stack([_order(answers, originals) for answers, originals in pairs])
    problems = torch.arange(len(order))[:, None]
    loss = answer.loss.masked_fill(failed, math.nan)
    return answer._replace(images=images[problems, order], loss=loss)


def _order(answers: Tensor, truth: Tensor) -> Tensor:
    """Return the position of the answer (B, C, H, W) to each true image; in order if one is NaN."""
    if not bool(answers.isfinite().all()):
        return torch.arange(len(answers))
    costs = (truth[:, None] - answers).square().flatten(2).mean(2)
    return torch.from_numpy(linear_sum_assignment(costs.double().cpu().numpy())[1])


def scored(found: Reconstruction, scene: Scene) -> list[Row]:
    """Return a row for each image, from answers in the images' order (see `matched`).

    Scores are against the true image, by which privacy is measured, and with the suffix `_trained`
    against the image that the gradient is of (the mixture, under mixing). A failed row has none.
    """
    answers, batch = found.images.flatten(0, 1), found.labels.shape[1]
    labels = scene.labels.view_as(found.labels)
    columns = {
        name + end: measure(images, answers)
        for end, images in (("", scene.images), (TRAINED, scene.trained))
        for name, measure in zip(MEASURES, (mse, psnr, ssim), strict=True)
    }
    columns["loss"] = found.loss.repeat_interleave(batch)
    numbers = zip(*(column.double().tolist() for column in columns.values()), strict=True)
    rights = labels_found(labels.tolist(), found.labels.tolist())
    rows = zip(scene.labels.tolist(), rights, numbers, strict=True)
    return [
        _row(image, label, right, dict(zip(columns, values, strict=True)))
        for image, (label, right, values) in enumerate(rows)
    ]


def labels_found(labels: Sequence[Sequence[int]], inferred: Sequence[Sequence[int]]) -> list[bool]:
    """Return for each label of each gradient whether it is among those inferred, one for each.

    >>> labels_found([[2, 2, 5]], [[5, 2, 7]])
    [True, False, True]
    """
    found = []
    for true, guessed in zip(labels, inferred, strict=True):
        left = Counter(guessed)
        for label in true:
            found.append(left[label] > 0)
            left[label] -= 1
    return found


def _row(image: int, label: int, right: bool, numbers: dict[str, float]) -> Row:
    if not math.isfinite(numbers["loss"]):
        return failed_row(image, label, "the attack's loss or its image is not finite")
    ended = {"status": "ok", "reason": None, "label_right": right}
    return {"image": image, "label": label, **ended, **numbers}


def failed_row(image: int, label: int, reason: str) -> Row:
    """Return the row of an image without a result."""
    none = dict.fromkeys(("label_right", *SCORES, "loss"))
    return {"image": image, "label": label, "status": "failed", "reason": reason, **none}


def worst_cases(attacks: Mapping[str, Sequence[Row]]) -> list[Row]:
    """Return each image's row with the lowest MSE, from the rows of every attack by its name.

    The label counts as found if any attack found it. If an attack failed, the worst case fails too:
    otherwise an attack that diverged would make a defence look private.
    """
    by_image = zip(*attacks.values(), strict=True)
    return [_worst(dict(zip(attacks, rows, strict=True))) for rows in by_image]


def _worst(rows: Mapping[str, Row]) -> Row:
    failed = [name for name, row in rows.items() if row["status"] != "ok"]
    if failed:
        first = next(iter(rows.values()))
        return failed_row(first["image"], first["label"], f"no result of {', '.join(failed)}")
    best = min(rows.values(), key=lambda row: float(row["mse"]))
    return best | {"label_right": any(row["label_right"] for row in rows.values())}


def summary(seeds: Sequence[Sequence[Row]]) -> Row:
    """Return the means of one attack's rows over seeds and images, the same images in all seeds.

    The intervals hold for other images and seeds (`two_level_interval`); those of a single seed are
    Student's, and hold for other images. Scores are None if a value is infinite, or a row failed:
    the mean of the rest would be that of another set of images.
    """
    rows = [row for seed in seeds for row in seed]
    failed = sum(row["status"] != "ok" for row in rows)
    found: Row = {"n_seeds": len(seeds), "n_images": len(seeds[0]), "failed": failed}
    found["label_right"] = None if failed else sum(row["label_right"] for row in rows) / len(rows)
    for score in SCORES:
        ends = [math.nan] * 3
        if not failed:
            ends = _mean(np.array([[row[score] for row in seed] for seed in seeds], np.float64))
        names = (f"{score}_mean", f"{score}_ci_low", f"{score}_ci_high")
        found |= {n: v if math.isfinite(v) else None for n, v in zip(names, ends, strict=True)}
    return found


def _mean(values: np.ndarray) -> list[float]:
    """Return the mean of values (S, N), and both ends of its interval."""
    if len(values) > 1:
        return [float(values.mean()), *two_level_interval(values)]
    found = mean_interval(values[0].tolist())
    return [float(values.mean()), found.low, found.high]
