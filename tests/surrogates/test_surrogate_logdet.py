import numpy as np
import pytest
import torch
from logdet_references import CLASSES, DIM, Gaussians, assert_step, batches, closed_form
from surrogate_batches import BATCHES, NOISE_STD, assert_near, batch, built, value_and_gradient
from surrogate_references import classes_of

from cemlib.surrogates.tiles import add_scatter, own_product, tile


def pair(**options):
    """The surrogate and its reference."""
    options = {"momentum": 0.9, "refresh": 3, **options}
    return built("logdet", CLASSES, DIM, **options), Gaussians(**options)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
@pytest.mark.parametrize(("dtype", "rel"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_first_batch_has_value_and_gradient_of_the_closed_form(name, shrinkage, dtype, rel):
    z, y, num_classes = batch(name)
    surrogate = built("logdet", num_classes, z.shape[1], shrinkage=shrinkage)
    value, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z.to(dtype))
    expected, (slope,) = value_and_gradient(lambda z: closed_form(z, y, shrinkage), z.double())
    assert value.dtype == gradient.dtype == dtype
    assert_near(value, expected, rel)
    assert_near(gradient, slope, rel)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9, None])
@pytest.mark.parametrize("refresh", [1, 3, 100])
@pytest.mark.parametrize("shrinkage", [0.0, 0.2])
@pytest.mark.parametrize(("dtype", "rel"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_every_value_and_gradient_equal_the_loops(momentum, refresh, shrinkage, dtype, rel):
    surrogate, reference = pair(momentum=momentum, refresh=refresh, shrinkage=shrinkage)
    for z, y in batches(dtype=dtype):
        assert_step(surrogate, reference, z, y, rel)


def test_float32_is_right_where_the_covariance_is_ill_conditioned():
    generator = torch.Generator().manual_seed(0)
    surrogate = built("logdet", 2, 32, momentum=0.9, refresh=4)
    reference = Gaussians(dim=32, momentum=0.9, refresh=4)
    y = torch.arange(24) % 2
    for _ in range(6):
        along = 0.5 + 0.4 * torch.randn(24, 1, generator=generator)
        z = along + 0.01 * torch.randn(24, 32, generator=generator)
        assert_step(surrogate, reference, z, y, 1e-5)
    widest = torch.linalg.eigvalsh(reference.moments(0)[1])[-1] / NOISE_STD**2
    assert 5e3 < widest < 2e4


@pytest.mark.parametrize("momentum", [None, 0.9])
def test_after_forgetting_the_moments_are_those_of_the_next_batch(momentum):
    """As after a pruning, which changes all features."""
    z, y, num_classes = batch("balanced")
    used, fresh = (built("logdet", num_classes, z.shape[1], momentum=momentum) for _ in range(2))
    used(z + 5, y)
    used.forget()
    used.reseed(0)
    for rows in (y > 0, y >= 0):  # a class comes later than the others
        values = [each(z[rows], y[rows]).item() for each in (used, fresh)]
        assert values[0] == pytest.approx(values[1], rel=1e-12)
    assert torch.allclose(used.covariances, fresh.covariances, rtol=1e-12)


def test_reseeding_refreshes_at_the_next_step():
    surrogate, reference = pair(refresh=100)
    for z, y in batches():
        surrogate.reseed(0)
        value = surrogate(z.double(), y)
        reference.see(z, y)
        assert float(value) == pytest.approx(float(reference.exact(y)), rel=1e-12)
        assert surrogate.log()["stale"] == 0


@pytest.mark.parametrize("name", ["logdet", "task_aware", "image_aware"])
def test_checkpoints_hold_the_moments_only(name):
    """A metric and its factors come anew with every epoch."""
    surrogate = built(name, 3, 4)
    surrogate.learn(torch.eye(4))
    shapes = {name: tuple(value.shape) for name, value in surrogate.state_dict().items()}
    assert shapes == {"means": (3, 4), "covariances": (3, 4, 4), "samples": (3,)}


@pytest.mark.parametrize(
    ("labels", "num_classes"),
    [
        ([0] * 33, 50),
        ([49] * 33, 50),
        ([3] * 20 + [1] * 9 + [0, 1, 2] * 2, 4),
        ([0, 1, 2, 3] * 5, 4),
        ([2], 9),
        (list(range(8)) * 2 + [5] * 30 + [0] * 25, 8),
    ],
)
def test_tiles_hold_every_row_once_with_its_class(labels, num_classes):
    generator = torch.Generator().manual_seed(0)
    y, rows = torch.tensor(labels), torch.randn(len(labels), 4, generator=generator).double()
    matrices = torch.randn(num_classes, 4, 4, generator=generator).double()
    matrices = matrices + matrices.mT
    tiles = tile(y, num_classes, torch.float64)
    products = torch.stack([matrices[c] @ row for row, c in zip(rows, labels, strict=True)])
    assert_near(own_product(rows, matrices, tiles), products, 1e-12)
    totals = matrices.clone()
    add_scatter(totals, rows, tiles)
    for row, c in zip(rows, labels, strict=True):
        matrices[c] += torch.outer(row, row)
    assert_near(totals, matrices, 1e-12)
    assert tiles.sizes.tolist() == [labels.count(c) for c in range(num_classes)]


def test_tiles_are_few_where_classes_are_many():
    y = torch.arange(128) % 100
    first, rest = tile(y, 100, torch.float32).arrange(torch.ones(128, 1))
    assert first.numel() + rest.numel() < 10 * len(y)


def test_notes():
    surrogate, reference = pair(refresh=100)
    for z, y in batches():
        surrogate(z, y)
        reference.see(z, y)
        notes, present = surrogate.log(), {int(y[i[0]]) for i in classes_of(y)}
        spreads = [float(reference.moments(c)[1].trace()) / 6 for c in present]
        assert notes["classes"] == len(present)
        assert notes["active"] == 1
        assert notes["variance"] == pytest.approx(sum(spreads) / len(spreads), rel=1e-6)
    change, at = reference.change(1).item(), reference.at(1).item()
    assert notes["stale"] == pytest.approx(abs(change) / (change + at), rel=1e-6)


def test_diverged_features_give_a_value_that_is_not_finite():
    z, y, num_classes = batch("balanced")
    z[0, 0] = torch.nan
    assert built("logdet", num_classes, 8)(z, y).isnan()


@pytest.mark.parametrize("spread", [0.08, 0.04])
def test_mean_value_is_near_the_truth_in_as_many_dimensions_as_a_network_has(spread):
    """From the first `refresh` steps of many samples per dimension on, and within them.

    The features of the only class have the same variance in all directions.
    """
    surrogate, y = built("logdet", 1, 512), torch.zeros(13, dtype=torch.long)
    z = spread * torch.randn(250, 13, 512, generator=torch.Generator().manual_seed(0))
    values = torch.stack([surrogate(rows, y) for rows in z])
    truth = 0.5 * np.log1p(spread**2 / NOISE_STD**2)
    assert values.mean() == pytest.approx(truth, rel=0.1)
    assert values[50:].view(4, 50).mean(1).tolist() == pytest.approx([truth] * 4, rel=0.1)
    assert 0.75 * truth < values[50:].min() < values.max() < 2 * truth


@pytest.mark.parametrize(("dim", "sizes"), [(8, [1, 3, 2]), (64, [12]), (16, [1, 30])])
def test_by_default_moments_average_four_samples_per_dimension_or_more(dim, sizes):
    surrogate, generator = built("logdet", 1, dim), torch.Generator().manual_seed(0)
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


def factorised(surrogate):
    """Those of the first 25 steps of an epoch before which the surrogate factorises."""
    surrogate.reseed(0)
    due = []
    for step in range(25):
        due += [] if surrogate.replayable else [step]
        surrogate(torch.rand(4, 6), torch.tensor([0, 1, 1, 0]))
    return due


def test_factorisations_double_their_distance_in_the_first_epoch_alone():
    surrogate = built("logdet", 2, 6, refresh=10)
    assert factorised(surrogate) == [0, 1, 2, 4, 8, 10, 16, 20]
    assert factorised(surrogate) == [0, 10, 20]
    assert factorised(built("logdet", 2, 6, refresh=10, momentum=0.9)) == [0, 10, 20]
