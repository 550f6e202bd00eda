import itertools
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from surrogate_batches import generator, shuffled_labels

from cemlib.surrogates import mixture
from cemlib.surrogates.kmeans import fit_clusters
from cemlib.surrogates.mixture import MAX_STEPS, RIDGE, Mixtures, fit_mixtures

COVARIANCES = ["diagonal", "full"]


def mixed_classes(sizes, dim):
    """Classes of overlapping unequal blobs, shuffled."""
    y = shuffled_labels(sizes)
    blob = torch.randint(3, (len(y),), generator=generator(1))
    centres = 1.5 * torch.randn(3, dim, generator=generator(2), dtype=torch.float64)
    noise = torch.randn(len(y), dim, generator=generator(3), dtype=torch.float64)
    return centres[blob] + (0.5 + blob.unsqueeze(1) / 2) * noise, y


def unit(num_classes, clusters, dim, covariance):
    """Covariances that are the identity."""
    ones = torch.ones(num_classes, clusters, dim, dtype=torch.float64)
    return ones.diag_embed() if covariance == "full" else ones


def nothing(num_classes, clusters, dim, covariance):
    means = torch.zeros(num_classes, clusters, dim, dtype=torch.float64)
    return Mixtures(means, means.sum(-1), unit(num_classes, clusters, dim, covariance))


def started(z, y, clusters, covariance):
    """Mixtures about the first samples of each class, of unequal weights."""
    classes = int(y.max()) + 1
    means = torch.stack([z[y == c][:clusters] for c in range(classes)]).double()
    weights = torch.arange(1.0, clusters + 1, dtype=torch.float64).expand(classes, clusters)
    weights = weights / weights.sum(1, keepdim=True)
    return Mixtures(means, weights, 2 * unit(classes, clusters, z.shape[1], covariance))


def by_scikit_learn(z, start, c, covariance, steps):
    model = GaussianMixture(
        start.means.shape[1],
        covariance_type="diag" if covariance == "diagonal" else "full",
        tol=1e-3,
        reg_covar=1e-6,
        max_iter=steps,
        weights_init=start.weights[c].numpy(),
        means_init=start.means[c].numpy(),
        precisions_init=(
            1 / start.covariances[c] if covariance == "diagonal" else start.covariances[c].inverse()
        ).numpy(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(z.numpy())


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(("clusters", "dim"), [(1, 3), (3, 2), (4, 8)])
@pytest.mark.parametrize("steps", [1, 4, MAX_STEPS])
def test_equals_scikit_learn_from_the_same_start(covariance, clusters, dim, steps, monkeypatch):
    monkeypatch.setattr(mixture, "MAX_STEPS", steps)
    z, y = mixed_classes([90, 40, 150], dim)
    start = started(z, y, clusters, covariance)
    found = fit_mixtures(z, y, start, generator())
    for c in range(3):
        model = by_scikit_learn(z[y == c], start, c, covariance, steps)
        np.testing.assert_allclose(found.weights[c], model.weights_, rtol=1e-7)
        np.testing.assert_allclose(found.means[c], model.means_, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.covariances[c], model.covariances_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_class_without_a_mixture_starts_from_its_clusters(covariance, monkeypatch):
    monkeypatch.setattr(mixture, "MAX_STEPS", 0)
    z, y = mixed_classes([60, 90], 3)
    found = fit_mixtures(z, y, nothing(2, 3, 3, covariance), generator(5))
    clusters = fit_clusters(z, y, *nothing(2, 3, 3, covariance)[:2], generator(5))
    torch.testing.assert_close(found.means, clusters.means)
    torch.testing.assert_close(found.weights, clusters.weights)
    if covariance == "diagonal":
        torch.testing.assert_close(found.covariances, clusters.variances + RIDGE)
        return
    for c, k in itertools.product(range(2), range(3)):
        members = z[y == c][torch.cdist(z[y == c], found.means[c]).argmin(1) == k]
        expected = members.T.cov(correction=0) + RIDGE * torch.eye(3)
        torch.testing.assert_close(found.covariances[c, k], expected)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_results_do_not_depend_on_the_block(covariance, monkeypatch):
    """Classes stop at different steps, and with the small block each is alone."""
    z, y = mixed_classes([30, 5, 0, 80, 12, 0], 4)
    whole = fit_mixtures(z, y, nothing(6, 3, 4, covariance), generator(4))
    monkeypatch.setattr(mixture, "BLOCK", 10)
    pieces = fit_mixtures(z, y, nothing(6, 3, 4, covariance), generator(4))
    torch.testing.assert_close(pieces, whole, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_small_classes_have_empty_components_and_no_nan(covariance):
    """Of 1, 2 and 0 samples for 3 components, and 12 equal ones."""
    z, y = mixed_classes([1, 2, 0, 12], 5)
    z[y == 3] = 0.7
    found = fit_mixtures(z, y, nothing(4, 3, 5, covariance), generator())
    assert all(values.isfinite().all() for values in found)
    weights = found.weights.sort(1).values
    expected = torch.tensor([[0, 0, 1], [0, 0.5, 0.5], [0, 0, 0], [0, 0, 1]]).double()
    torch.testing.assert_close(weights, expected)
    full = found.covariances.ndim == 4
    kept = found.covariances[[0, 1, 3]][found.weights[[0, 1, 3]] > 0]
    variances = kept.diagonal(dim1=-2, dim2=-1) if full else kept
    torch.testing.assert_close(variances, torch.full_like(variances, RIDGE), rtol=1e-6, atol=0)
    again = fit_mixtures(z, y, found, generator())
    torch.testing.assert_close(again.weights, found.weights)


@pytest.mark.parametrize("weight", [0.0, 0.5])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_an_empty_component_keeps_its_place_and_shifts_no_other(covariance, weight):
    """It is so far away that its responsibilities are 0 in every representable number."""
    z, y = mixed_classes([70], 2)
    two = started(z, y, 2, covariance)
    far = Mixtures(
        torch.cat([torch.full((1, 1, 2), 1e4).double(), two.means], 1),
        torch.cat([torch.full((1, 1), weight).double(), (1 - weight) * two.weights], 1),
        torch.cat([3 * unit(1, 1, 2, covariance), two.covariances], 1),
    )
    found, without = (fit_mixtures(z, y, start, generator()) for start in (far, two))
    torch.testing.assert_close(found.means[:, 1:], without.means)
    torch.testing.assert_close(found.covariances[:, 1:], without.covariances)
    torch.testing.assert_close(found.means[0, 0], far.means[0, 0])
    assert torch.equal(found.covariances[0, 0], far.covariances[0, 0])
    assert float(found.weights[0, 0]) == 0


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_samples_far_from_every_component_do_not_underflow(covariance, monkeypatch):
    monkeypatch.setattr(mixture, "MAX_STEPS", 1)
    z, y = mixed_classes([40], 2)
    start = started(z, y, 2, covariance)
    narrow = Mixtures(start.means - 1e3, start.weights, 1e-6 * start.covariances)
    found = fit_mixtures(z, y, narrow, generator())
    assert all(values.isfinite().all() for values in found)
    nearest = torch.cdist(z, narrow.means[0]).argmin(1)
    shares = torch.bincount(nearest, minlength=2) / 40
    torch.testing.assert_close(found.weights[0], shares.double(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_class_without_samples_keeps_what_it_had_with_weight_zero(covariance):
    z, y = mixed_classes([50, 60], 3)
    first = fit_mixtures(z, y, nothing(2, 2, 3, covariance), generator())
    second = fit_mixtures(z[y == 0], y[y == 0], first, generator())
    torch.testing.assert_close(second.means[1], first.means[1])
    assert torch.equal(second.covariances[1], first.covariances[1])
    assert second.weights[1].tolist() == [0, 0]
    third = fit_mixtures(z, y, second, generator())
    assert float(third.weights[1].sum()) == pytest.approx(1)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_float32_far_from_the_origin_keeps_its_digits(covariance):
    """A spread of .003 about 1: differences of squares in float32 would be noise."""
    z, y = mixed_classes([200, 150], 6)
    z = (1 + 0.003 * z).float()
    start = started(z, y, 2, covariance)
    narrow = Mixtures(start.means, start.weights, 1e-5 * start.covariances)
    exact = fit_mixtures(z.double(), y, narrow, generator())
    found = fit_mixtures(z, y, narrow, generator())
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-12)
    centred = narrow._replace(means=narrow.means - 1)
    for c in range(2):
        model = by_scikit_learn(z[y == c].double() - 1, centred, c, covariance, MAX_STEPS)
        np.testing.assert_allclose(exact.covariances[c], model.covariances_, rtol=1e-6, atol=1e-12)


def test_rounding_that_makes_covariances_indefinite_is_survived():
    """The ridge of 1e-6 is below the rounding of covariances of 1e12 and fewer samples than D."""
    z, y = mixed_classes([12, 9], 16)
    found = fit_mixtures(1e6 * z, y, nothing(2, 3, 16, "full"), generator())
    assert all(values.isfinite().all() for values in found)
    torch.testing.assert_close(found.weights.sum(1), torch.ones(2).double())
