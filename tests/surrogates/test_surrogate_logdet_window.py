"""How many samples `logdet` averages by default, and what its value is worth from when on."""

import numpy as np
import pytest
import torch

from cemlib.surrogates.logdet import LogDet

NOISE_STD = 0.025


def built(num_classes, dim, **options):
    return LogDet(dim=dim, num_classes=num_classes, noise_std=NOISE_STD, **options)


def gaussians(steps, spread, size=13, dim=512, seed=0):
    """Batches of one class with the same variance in all directions."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield spread * torch.randn(size, dim, generator=generator)


@pytest.mark.parametrize("spread", [0.08, 0.04])
def test_mean_value_is_near_the_truth_in_as_many_dimensions_as_a_network_has(spread):
    """From the first `refresh` steps of many samples per dimension on, and within them."""
    surrogate, y = built(1, 512), torch.zeros(13, dtype=torch.long)
    values = torch.stack([surrogate(z, y) for z in gaussians(250, spread)])
    truth = 0.5 * np.log1p(spread**2 / NOISE_STD**2)
    assert values.mean() == pytest.approx(truth, rel=0.1)
    assert values[50:].view(4, 50).mean(1).tolist() == pytest.approx([truth] * 4, rel=0.1)
    assert 0.75 * truth < values[50:].min() < values.max() < 2 * truth


@pytest.mark.parametrize(("dim", "sizes"), [(8, [1, 3, 2]), (64, [12]), (16, [1, 30])])
def test_by_default_moments_average_four_samples_per_dimension_or_more(dim, sizes):
    surrogate, generator = built(1, dim), torch.Generator().manual_seed(0)
    samples = []
    for step in range(600):
        size = sizes[step % len(sizes)]
        z = torch.rand(size, dim, generator=generator)
        surrogate(z, torch.zeros(size, dtype=torch.long))
        samples.append(float(surrogate.samples))
    seen = np.cumsum([sizes[step % len(sizes)] for step in range(600)])
    early = seen <= 2 * dim - max(sizes)
    assert samples[: early.sum()] == pytest.approx(seen[early].tolist())
    assert min(samples[300:]) > 0.99 * 4 * dim


def factorised(surrogate, steps):
    """Steps of an epoch before which the surrogate is at a factorisation."""
    surrogate.reseed(0)
    due = []
    for step in range(steps):
        due += [] if surrogate.replayable else [step]
        surrogate(torch.rand(4, 6), torch.tensor([0, 1, 1, 0]))
    return due


def test_factorisations_double_their_distance_in_the_first_epoch_alone():
    surrogate = built(2, 6, refresh=10)
    assert factorised(surrogate, 25) == [0, 1, 2, 4, 8, 10, 16, 20]
    assert factorised(surrogate, 25) == [0, 10, 20]
    assert factorised(built(2, 6, refresh=10, momentum=0.9), 25) == [0, 10, 20]
