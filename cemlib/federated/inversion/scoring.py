"""Score reconstructed images, one row each, and the worst case over the attacks."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from cemlib.federated.inversion.reconstruction import Reconstruction
from cemlib.metrics import mse, psnr, ssim

WORST_CASE = "worst_case"
MEASURES = ("mse", "psnr", "ssim")
TRAINED = "_trained"
"""End of the names of scores against the image that the gradient is of."""

SCORES = (*MEASURES, *(name + TRAINED for name in MEASURES))

Row = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """Hold answers in the order of the images they are scored on.

    Attributes:
        images: (N, C, H, W) in [0, 1]; NaN where the attack failed.
        labels: (N,).
        loss: (N,) of the gradient behind each; not finite where the attack failed.
    """

    images: Tensor
    labels: Tensor
    loss: Tensor


def matched(answer: Reconstruction, truth: Tensor) -> Found:
    """Put answers (P, B, ...) in the order of the true images (P * B, C, H, W).

    A gradient of a batch has no order: within each the assignment of the lowest total squared error
    is taken, as the scores of the whole batch are what counts.
    """
    problems, batch = answer.labels.shape
    failed = ~(answer.loss.isfinite() & answer.images.flatten(1).isfinite().all(1))
    loss = answer.loss.masked_fill(failed, math.nan)
    images = answer.images.masked_fill(failed[:, None, None, None, None], math.nan)
    labels = answer.labels
    if batch > 1:
        order = torch.stack(
            [
                _order(a, b)
                for a, b in zip(
                    images, truth.reshape(problems, batch, *truth.shape[1:]), strict=True
                )
            ]
        )
        rows = torch.arange(problems)[:, None]
        images, labels = images[rows, order], labels[rows, order]
    return Found(images.flatten(0, 1), labels.flatten(), loss.repeat_interleave(batch))


def scored(found: Found, truth: Tensor, trained: Tensor, labels: Tensor) -> list[Row]:
    """Return a row for each image.

    Its keys are `image`, `label`, `status` (`ok` or `failed`), `reason`, `strongest` (None, of the
    worst case the attack that came closest), `label_right`, `loss` (the attack's own), `mse`,
    `psnr`, `ssim` against the true image, and the same with `_trained` against the image that the
    gradient is of: the mixture, under mixing. A failed row has no scores.

    Args:
        found: the answers.
        truth: the true images (N, C, H, W): what privacy is measured against.
        trained: the images that the gradient is of, (N, C, H, W).
        labels: (N,).
    """
    columns = {
        name + end: function(images, found.images)
        for end, images in (("", truth), (TRAINED, trained))
        for name, function in _FUNCTIONS.items()
    }
    columns |= {"loss": found.loss}
    numbers = {name: column.double().tolist() for name, column in columns.items()}
    right = (found.labels == labels).tolist()
    classes = labels.tolist()
    return [
        _row(image, classes[image], right[image], {name: numbers[name][image] for name in numbers})
        for image in range(len(classes))
    ]


def worst_cases(rows: list[Row]) -> list[Row]:
    """Return the rows of `worst_case` on one defence: for each image the attack of the lowest MSE.

    It is what an attacker would reach who could tell which attack comes closest. The label counts
    as found where some attack found it. Where an attack failed, the strongest one is not known, and
    the worst case fails too: otherwise an attack that diverged would make a defence look private.
    """
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["image"], []).append(row)
    return [_worst(group) for group in groups.values()]


def _worst(group: list[Row]) -> Row:
    failed = [row["attack"] for row in group if row["status"] != "ok"]
    if failed:
        first, reason = group[0], f"no result of {', '.join(failed)}"
        return {**first, **failed_row(first["image"], first["label"], reason), "attack": WORST_CASE}
    best = min(group, key=lambda row: float(row["mse"]))
    found = any(row["label_right"] for row in group)
    return {**best, "attack": WORST_CASE, "strongest": best["attack"], "label_right": found}


def _row(image: int, label: int, right: bool, numbers: dict[str, float]) -> Row:
    if not math.isfinite(numbers["loss"]):
        return failed_row(image, label, "the attack's loss is not a number")
    ended = {"status": "ok", "reason": None, "strongest": None}
    return {"image": image, "label": label, **ended, "label_right": right, **numbers}


def failed_row(image: int, label: int, reason: str) -> Row:
    """Return the row of an image without a result."""
    none = dict.fromkeys(("strongest", "label_right", "loss", *SCORES))
    return {"image": image, "label": label, "status": "failed", "reason": reason, **none}


def _order(answers: Tensor, truth: Tensor) -> Tensor:
    """Return which answer (B, C, H, W) stands for each true image; in order if not numbers."""
    if not bool(answers.isfinite().all()):
        return torch.arange(len(answers))
    costs = (truth[:, None] - answers).square().flatten(2).mean(2)
    return torch.from_numpy(linear_sum_assignment(costs.double().cpu().numpy())[1])


_FUNCTIONS = dict(zip(MEASURES, (mse, psnr, ssim), strict=True))
