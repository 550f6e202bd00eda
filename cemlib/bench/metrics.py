"""SSIM of many images, against torchmetrics with the same window."""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from cemlib.bench.floor import floor_ms, flops
from cemlib.bench.scale import Scale
from cemlib.bench.subject import images
from cemlib.bench.timing import Work, compared, side_by_side
from cemlib.data.pixels import to_float
from cemlib.metrics import ssim

AGAINST = "torchmetrics, the same window"
MISSING = "torchmetrics is not installed"


def metrics(scale: Scale) -> dict[str, Any]:
    """SSIM per image, without padding, of random images."""
    torch.set_num_threads(scale.threads)
    x, y = (to_float(images(scale.images, scale, seed).images.to(scale.device)) for seed in (0, 1))
    work = Work(lambda: ssim(x, y, padding="valid"))
    plain = _torchmetrics(x, y) if find_spec("torchmetrics") is not None else None
    ours, reference = side_by_side(work, plain, max(1, scale.repeats // 3), scale.device)
    floor = floor_ms(flops(work.run), scale.device, scale.threads)
    against = MISSING if plain is None else AGAINST
    return {"images": scale.images, "ssim": compared(ours, reference, against, floor)}


def _torchmetrics(x: Tensor, y: Tensor) -> Work:
    from torchmetrics.functional.image import structural_similarity_index_measure

    options: dict[str, Any] = {"reduction": "none", "data_range": 1.0}
    return Work(lambda: structural_similarity_index_measure(x, y, **options))
