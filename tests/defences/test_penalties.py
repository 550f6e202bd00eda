"""Training penalties in half precision."""

from typing import Any

import pytest
import torch
from penalties import build
from torch import Tensor

from cemlib.defences.penalties import Penalty

OPTIONS: dict[str, dict[str, Any]] = {
    "nopeek": {"scale": 0.7},
    "bido": {},
    "arl": {"blocks": 1, "width": 8},
}
LABELS = torch.tensor([0, 1, 0, 2, 1, 2])
IMAGES, FEATURES = (1, 8, 8), (2, 4, 4)


def penalty(name: str) -> Penalty:
    torch.manual_seed(0)
    return build(name, image_shape=IMAGES, feature_shape=FEATURES, **OPTIONS[name])


def batch() -> tuple[Tensor, Tensor, Tensor]:
    numbers = torch.Generator().manual_seed(1)
    images = torch.rand(len(LABELS), *IMAGES, generator=numbers)
    features = torch.rand(len(LABELS), *FEATURES, generator=numbers)
    return images, features, features + 0.1 * torch.randn(features.shape, generator=numbers)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single(name: str, kind: torch.dtype) -> None:
    low = [x.to(kind) for x in batch()]
    images, *rest = (x.float() for x in low)
    expected = penalty(name)(images, LABELS, *rest)
    features = low[1].requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        noise = (low[2] - low[1]).detach()
        found = penalty(name)(low[0], LABELS, features, features + noise)
        single = penalty(name)(images, LABELS, *rest)
    assert found.dtype == torch.float32
    assert torch.equal(single, expected)
    assert found.item() == pytest.approx(expected.item(), rel=1e-2)
    found.backward()
    assert features.grad.isfinite().all()
