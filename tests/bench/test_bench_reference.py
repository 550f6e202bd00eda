"""The plain loop computes what cemlib computes: same loss, same gradients, same clusters."""

import copy

import pytest
import torch
from torch.nn import functional as F

from cemlib.bench.reference import PlainLoop, Statistics, plain_fit, plain_penalty, plain_step
from cemlib.bench.scale import CLASSES, NOISE_STD, Scale
from cemlib.bench.subject import features, images, split_model
from cemlib.surrogates import build
from cemlib.surrogates.clustering import Clustering
from cemlib.training.objective import fork

LAMBDA = 0.32


def statistics(dim: int, samples: int) -> Statistics:
    """Clusters of other features than the batch's, one of them without members."""
    z, y = features(600, dim, "cpu")
    found = plain_fit(z, y, None, CLASSES)
    found.weights[0] = torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0])
    return Statistics(found.means, found.weights, 0.3 * found.variances, samples)


def ours(found: Statistics) -> Clustering:
    dim = found.means.shape[-1]
    surrogate = build(
        "clustering",
        dim=dim,
        num_classes=CLASSES,
        noise_std=NOISE_STD,
        num_train=found.samples,
    )
    assert isinstance(surrogate, Clustering)
    surrogate.load_statistics(found.means, found.weights, found.variances)
    return surrogate


@pytest.mark.parametrize("samples", [600, 60_000])  # the batch's variance alone, and blended
def test_the_loops_penalty_is_the_surrogates(samples: int) -> None:
    found = statistics(24, samples)
    z, y = features(64, 24, "cpu", seed=5)
    plain, fast = z.clone().requires_grad_(), z.clone().requires_grad_()
    values = plain_penalty(plain, y, found), ours(found)(fast, y)
    assert values[0] > 0.01
    torch.testing.assert_close(*values)
    (slow,), (quick,) = torch.autograd.grad(values[0], plain), torch.autograd.grad(values[1], fast)
    assert slow.abs().max() > 1e-5
    torch.testing.assert_close(quick, slow, atol=1e-8, rtol=1e-4)


def test_two_backward_passes_give_the_gradients_of_one(tiny: Scale) -> None:
    torch.manual_seed(0)
    model = split_model(tiny).train()
    dim = 8 * 4 * 4
    found, batch = statistics(dim, 6_000), images(tiny.batch, tiny)
    pixels, noise = batch.images / 255, NOISE_STD * torch.randn(tiny.batch, *model.feature_shape)

    plain = copy.deepcopy(model)
    still = torch.optim.SGD(plain.parameters(), lr=0.0)
    torch.manual_seed(1)  # of the head's dropout, where it has any
    said = plain_step(plain, found, pixels, batch.labels, noise, LAMBDA, still)

    torch.manual_seed(1)
    clean, branch, norms = fork(model.encoder(pixels), LAMBDA)
    penalty = ours(found)(branch, batch.labels)
    loss = F.cross_entropy(model.head(clean + noise), batch.labels)
    (loss + penalty).backward()

    assert said["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert said["surrogate"] == pytest.approx(penalty.item(), rel=1e-4)
    assert norms[1] > 0.01 * norms[0]  # the surrogate's part can be seen in the sum
    for one, two in zip(model.parameters(), plain.parameters(), strict=True):
        assert one.grad is not None
        assert two.grad is not None
        torch.testing.assert_close(two.grad, one.grad, atol=1e-6, rtol=1e-3)


def test_scikit_learns_clusters_are_ours() -> None:
    """From the same centroids both end at the same ones."""
    z, y = features(800, 16, "cpu")
    start = plain_fit(z[:400], y[:400], None, CLASSES)
    plain, fast = plain_fit(z, y, start, CLASSES), ours(start)
    fast.fit(z, y)
    torch.testing.assert_close(fast.means, plain.means, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(fast.weights, plain.weights)
    torch.testing.assert_close(fast.variances, plain.variances, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("clustered", [True, False])
def test_an_epoch_ends_with_clusters_that_the_next_one_uses(tiny: Scale, clustered: bool) -> None:
    train, val = images(80, tiny), images(20, tiny, seed=1)
    torch.manual_seed(0)
    loop = PlainLoop(
        split_model(tiny), train, val, batch=40, workers=0, device="cpu", clustered=clustered
    )
    assert all(step["surrogate"] == 0 for step in loop.pass_over())
    loop.epoch()
    assert (loop.statistics is not None) == clustered
    if loop.statistics is not None:
        loop.statistics.means.zero_()  # far from every feature, so that each hinge is active
    steps = loop.pass_over()
    assert len(steps) == 2
    assert all((step["surrogate"] > 0) == clustered for step in steps)
