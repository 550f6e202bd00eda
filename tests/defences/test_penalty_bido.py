"""BiDO's dependence against scikit-learn's kernels, and its pull against finite differences."""

import numpy as np
import pytest
import torch
from penalties import build, plain_alignment
from sklearn.metrics.pairwise import rbf_kernel
from torch import Tensor

from cemlib.defences.penalties.bido import alignment, gaussian_kernel

LABELS = torch.tensor([0, 0, 1, 2, 1, 0, 2, 2, 1])


def samples(dim: int, seed: int) -> Tensor:
    numbers = torch.Generator().manual_seed(seed)
    return torch.rand(len(LABELS), dim, dtype=torch.float64, generator=numbers)


def plain_kernel(x: Tensor) -> np.ndarray:
    return rbf_kernel(x.double().numpy(), gamma=1 / (2 * 25 * x.shape[1]))


@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_the_dependence_of_single_precision_samples(spread: float) -> None:
    """Also where the features have contracted around a point far from 0."""
    x, z = samples(64, 0).float(), (0.5 + spread * samples(32, 1)).float()
    found = alignment(gaussian_kernel(x), gaussian_kernel(z))
    expected = plain_alignment(plain_kernel(x), plain_kernel(z))
    assert found.item() == pytest.approx(expected, rel=1e-4)


def test_the_penalty_is_dependence_on_images_less_that_on_labels() -> None:
    images, features = samples(64, 0).view(-1, 1, 8, 8), samples(32, 1).view(-1, 2, 4, 4)
    options = {"scale": 0.7, "label_ratio": 3.0}
    bido = build("bido", image_shape=(1, 8, 8), feature_shape=(2, 4, 4), **options)
    x, z = (plain_kernel(each.flatten(1)) for each in (images, features))
    same = np.equal.outer(LABELS.numpy(), LABELS.numpy()).astype(float)
    expected = 0.7 * (plain_alignment(x, z) - 3 * plain_alignment(z, same))
    released = features + samples(32, 2).view(-1, 2, 4, 4)
    found = bido(images, LABELS, features, released)
    assert found.item() == pytest.approx(expected, rel=1e-9)
    pull = torch.autograd.gradcheck(
        lambda z: bido(images, LABELS, z, released), features.requires_grad_(), eps=1e-5
    )
    assert pull


@pytest.mark.parametrize("level", [0.0, 0.3])
def test_constant_features_have_no_dependence_and_no_pull(level: float) -> None:
    z = torch.full((len(LABELS), 4), level, requires_grad=True)
    found = alignment(gaussian_kernel(samples(5, 0).float()), gaussian_kernel(z))
    found.backward()
    assert found.item() == 0
    assert not z.grad.any()
