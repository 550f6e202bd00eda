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
from cemlib.surrogates.mixture import (
    MAX_STEPS,
    RIDGE,
    DiagonalSamples,
    FullSamples,
    Mixtures,
    _e_step,
    fit_mixtures,
)

COVARIANCES = ["diagonal", "full"]


def mixed_classes(sizes, dim):
    """Classes of overlapping unequal blobs, shuffled."""
    y = shuffled_labels(sizes)
    blob = torch.randint(3, (len(y),), generator=generator(1))
    centres = 1.5 * torch.randn(3, dim, generator=generator(2), dtype=torch.float64)
    noise = torch.randn(len(y), dim, generator=generator(3), dtype=torch.float64)
    return centres[blob] + (0.5 + blob.unsqueeze(1) / 2) * noise, y


def nothing(num_classes, clusters, dim):
    """The means and weights of classes without a fit."""
    means = torch.zeros(num_classes, clusters, dim)
    return means, means.sum(-1)


def fitted(z, y, clusters, covariance, last=None):
    last = last or nothing(int(y.max()) + 1, clusters, z.shape[1])
    return fit_mixtures(z, y, *last[:2], generator(), full=covariance == "full")


def first_step(z, y, clusters, covariance, monkeypatch):
    """The mixtures of the hard assignment to K-means clusters, from which EM starts."""
    with monkeypatch.context() as patched:
        patched.setattr(mixture, "MAX_STEPS", 0)
        return fitted(z, y, clusters, covariance)


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
    z, y = mixed_classes([90, 40, 150], dim)
    start = first_step(z, y, clusters, covariance, monkeypatch)
    monkeypatch.setattr(mixture, "MAX_STEPS", steps)
    found = fitted(z, y, clusters, covariance)
    for c in range(3):
        model = by_scikit_learn(z[y == c], start, c, covariance, steps)
        np.testing.assert_allclose(found.weights[c], model.weights_, rtol=1e-7)
        np.testing.assert_allclose(found.means[c], model.means_, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.covariances[c], model.covariances_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_fit_starts_from_clusters(covariance, monkeypatch):
    z, y = mixed_classes([60, 90], 3)
    found = first_step(z, y, 3, covariance, monkeypatch)
    clusters = fit_clusters(z, y, *(values.double() for values in nothing(2, 3, 3)), generator())
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
    whole = fitted(z, y, 3, covariance, last=nothing(6, 3, 4))
    monkeypatch.setattr(mixture, "BLOCK", 10)
    pieces = fitted(z, y, 3, covariance, last=nothing(6, 3, 4))
    torch.testing.assert_close(pieces, whole, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_small_classes_have_empty_components_and_no_nan(covariance):
    """Of 1, 2 and 0 samples for 3 components, and 12 equal ones."""
    z, y = mixed_classes([1, 2, 0, 12], 5)
    z[y == 3] = 0.7
    found = fitted(z, y, 3, covariance)
    assert all(values.isfinite().all() for values in found)
    weights = found.weights.sort(1).values
    expected = torch.tensor([[0, 0, 1], [0, 0.5, 0.5], [0, 0, 0], [0, 0, 1]]).double()
    torch.testing.assert_close(weights, expected)
    full = found.covariances.ndim == 4
    kept = found.covariances[[0, 1, 3]][found.weights[[0, 1, 3]] > 0]
    variances = kept.diagonal(dim1=-2, dim2=-1) if full else kept
    torch.testing.assert_close(variances, torch.full_like(variances, RIDGE), rtol=1e-6, atol=0)
    again = fitted(z, y, 3, covariance, last=found)
    torch.testing.assert_close(again.weights, found.weights)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_an_empty_component_keeps_its_place_and_shifts_no_other(covariance):
    """It is so far away that no sample is nearest to it."""
    z, y = mixed_classes([70], 2)
    two = (z[:2].unsqueeze(0), torch.full((1, 2), 0.5))
    far = (torch.cat([torch.full((1, 1, 2), 1e4), two[0]], 1), torch.full((1, 3), 1 / 3))
    found, without = (fitted(z, y, 2, covariance, last=last) for last in (far, two))
    torch.testing.assert_close(found.means[:, 1:], without.means)
    torch.testing.assert_close(found.covariances[:, 1:], without.covariances)
    assert found.means[0, 0].tolist() == [1e4, 1e4]
    assert float(found.weights[0, 0]) == 0


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_responsibilities_of_components_far_away_do_not_underflow(covariance):
    z, _ = mixed_classes([40], 2)
    narrow = torch.full((1, 2, 2), 1e-6, dtype=torch.float64)
    covariances = narrow.diag_embed() if covariance == "full" else narrow
    start = Mixtures(z[None, :2] - 1e3, torch.full((1, 2), 0.5).double(), covariances)
    samples = (FullSamples if covariance == "full" else DiagonalSamples)(z.unsqueeze(0))
    found, likelihood = _e_step(samples, torch.ones(1, 40, dtype=torch.float64), start)
    nearest = torch.cdist(z, start.means[0]).argmin(1)
    expected = torch.nn.functional.one_hot(nearest, 2).double()
    torch.testing.assert_close(found[0], expected, atol=1e-6, rtol=0)
    assert likelihood.isfinite().all()


@pytest.mark.parametrize("clusters", [2, 5])
def test_no_component_is_lost_when_the_features_move(clusters):
    """Blobs of many dimensions and unequal width, of which EM from the last mixture keeps one."""
    draws = generator(6)
    centres = torch.randn(1, clusters, 256, generator=draws)
    widths = torch.linspace(0.3, 0.8, clusters).view(-1, 1)
    z = (centres + widths * torch.randn(40, clusters, 256, generator=draws)).flatten(0, 1)
    y, last = torch.zeros(len(z), dtype=torch.long), None
    for _ in range(4):
        last = fitted(z, y, clusters, "diagonal", last=last)
        torch.testing.assert_close(last.weights, torch.full((1, clusters), 1 / clusters).double())
        z = 0.9 * z + 2 * torch.randn(256, generator=draws)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_class_without_samples_keeps_what_it_had_with_weight_zero(covariance):
    z, y = mixed_classes([50, 60], 3)
    first = fitted(z, y, 2, covariance)
    second = fitted(z[y == 0], y[y == 0], 2, covariance, last=first)
    torch.testing.assert_close(second.means[1], first.means[1])
    assert second.weights[1].tolist() == [0, 0]
    third = fitted(z, y, 2, covariance, last=second)
    assert float(third.weights[1].sum()) == pytest.approx(1)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_float32_far_from_the_origin_keeps_its_digits(covariance, monkeypatch):
    """A spread of .003 about 1: differences of squares in float32 would be noise."""
    z, y = mixed_classes([200, 150], 6)
    z = (1 + 0.003 * z).float()
    exact, found = (fitted(samples, y, 2, covariance) for samples in (z.double(), z))
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-12)
    centred = first_step(z.double() - 1, y, 2, covariance, monkeypatch)
    for c in range(2):
        model = by_scikit_learn(z[y == c].double() - 1, centred, c, covariance, MAX_STEPS)
        np.testing.assert_allclose(exact.covariances[c], model.covariances_, rtol=1e-6, atol=1e-12)


def test_rounding_that_makes_covariances_indefinite_is_survived():
    """The ridge of 1e-6 is below the rounding of covariances of 1e12 and fewer samples than D."""
    z, y = mixed_classes([12, 9], 16)
    found = fitted(1e6 * z, y, 3, "full")
    assert all(values.isfinite().all() for values in found)
    torch.testing.assert_close(found.weights.sum(1), torch.ones(2).double())
