"""Scores of reconstructions: every image's, and their means."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cemlib.defences.deployed import Deployed
from cemlib.metrics import WINDOW, mse, psnr, psnr_of_mean_mse, ssim
from cemlib.records.files import write_bytes

CHUNK = 512
MEASURES = ("mse", "psnr", "ssim", "ssim_valid")


def per_image(originals: Tensor, reconstructions: Tensor) -> dict[str, Tensor]:
    """Score images (N, C, H, W) in [0, 1], by the names of `MEASURES`: (N,) each; N may be 0."""
    pairs = zip(torch.split(originals, CHUNK), torch.split(reconstructions, CHUNK), strict=True)
    parts = [torch.stack(_score(x, y)) for x, y in pairs]
    return dict(zip(MEASURES, torch.cat(parts, dim=1), strict=True))


def means(scores: Mapping[str, Tensor]) -> dict[str, float | None]:
    """Return the mean of every score over the images, and PSNR by the published convention.

    None stands for what is no number: the mean over no images, an infinite PSNR, or the SSIM
    without padding of images smaller than its window.
    """
    values = {name: column.double().mean().item() for name, column in scores.items()}
    some = len(scores["mse"]) > 0
    values["psnr_of_mean_mse"] = psnr_of_mean_mse(scores["mse"]) if some else math.nan
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def recognised(
    classifier: Deployed, images: Tensor, labels: Tensor, noise: torch.Generator
) -> Tensor:
    """Return whether a classifier puts each image (N, C, H, W) into its class (N,): (N,) bool."""
    return classifier.logits(classifier.features(images), noise).argmax(1) == labels


def write_per_image(path: Path, first: int, labels: Tensor, scores: Mapping[str, Tensor]) -> None:
    """Write one row per scored image: its index in the test split, its label, its scores.

    Args:
        path: the Parquet file.
        first: index of the first scored image in the test split.
        labels: of the whole test split.
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


def _score(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    fits = min(x.shape[-2:]) >= WINDOW
    valid = ssim(x, y, padding="valid") if fits else x.new_full((len(x),), math.nan)
    return mse(x, y), psnr(x, y), ssim(x, y), valid
