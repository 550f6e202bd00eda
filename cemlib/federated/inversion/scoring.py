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
    """Return a row for each image, without the names of the defence and of the attack.

    Args:
        found: the answers.
        truth: the true images (N, C, H, W): what privacy is measured against.
        trained: the images that the gradient is of, (N, C, H, W).
        labels: (N,).
    """
    columns = {name: function(truth, found.images) for name, function in _FUNCTIONS.items()}
    columns |= {
        name + TRAINED: function(trained, found.images) for name, function in _FUNCTIONS.items()
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
    """Return the rows of `worst_case`: image by image the attack with the lowest MSE.

    It is what an attacker would reach who could tell which attack comes closest. The label counts
    as found where some attack found it. Where an attack failed, the strongest one is not known, and
    the worst case fails too: otherwise an attack that diverged would make a defence look private.
    """
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["defence"], row["image"]), []).append(row)
    return [_worst(group) for group in groups.values()]


def _worst(group: list[Row]) -> Row:
    failed = [row["attack"] for row in group if row["status"] != "ok"]
    if failed:
        reason = f"no result of {', '.join(failed)}"
        named = {"attack": WORST_CASE, "strongest": None}
        return {**group[0], **_failed(reason), **named}
    best = min(group, key=lambda row: float(row["mse"]))
    found = any(row["label_right"] for row in group)
    return {**best, "attack": WORST_CASE, "strongest": best["attack"], "label_right": found}


def _row(image: int, label: int, right: bool, numbers: dict[str, float]) -> Row:
    row = {"image": image, "label": label, "status": "ok", "reason": None, "strongest": None}
    if math.isfinite(numbers["loss"]):
        return {**row, "label_right": right, **numbers}
    return {**row, **_failed("the attack's loss is not a number")}


def _failed(reason: str) -> Row:
    none = dict.fromkeys(("label_right", "loss", *SCORES))
    return {"status": "failed", "reason": reason, **none}


def _order(answers: Tensor, truth: Tensor) -> Tensor:
    """Return which answer (B, C, H, W) stands for each true image; in order if not numbers."""
    if not bool(answers.isfinite().all()):
        return torch.arange(len(answers))
    costs = (truth[:, None] - answers).square().flatten(2).mean(2)
    return torch.from_numpy(linear_sum_assignment(costs.double().cpu().numpy())[1])


_FUNCTIONS = dict(zip(MEASURES, (mse, psnr, ssim), strict=True))
