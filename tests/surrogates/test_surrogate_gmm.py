from copy import deepcopy

import pytest
import torch
from mixture_references import assert_equal_to, gmm, loaded, some_covariances
from surrogate_batches import BATCHES, NOISE_STD, assert_near, batch, built, value_and_gradient

from cemlib.metrics import leakage_bound

COVARIANCES = ["diagonal", "full"]


def made(covariance, num_classes=4, dim=8, **options):
    return built("gmm", num_classes, dim, covariance=covariance, **options)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("clusters", [1, 3])
@pytest.mark.parametrize("num_train", [10, 3000])
def test_diagonal_equals_the_loops(name, clusters, num_train):
    z, y, num_classes = batch(name)
    surrogate = loaded("gmm", num_classes, z.shape[1], clusters, num_train=num_train)
    covariances = surrogate.variances.diag_embed()
    assert_equal_to(lambda z: gmm(surrogate, z, y, covariances, num_train), surrogate, z, y)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("clusters", [1, 3])
@pytest.mark.parametrize("num_train", [10, 3000])
def test_full_equals_the_loops(name, clusters, num_train):
    """Eigenvectors are stored in float32; for double precision they are stored anew in float64."""
    z, y, num_classes = batch(name)
    dim = z.shape[1]
    options = {"num_train": num_train, "covariance": "full"}
    surrogate = loaded("gmm", num_classes, dim, clusters, **options)
    covariances = some_covariances(num_classes, clusters, dim)
    expected, (slope,) = value_and_gradient(
        lambda z: gmm(surrogate, z, y, covariances, num_train), z.double()
    )
    for dtype, rel in ((torch.float32, 1e-5), (torch.float64, 1e-9)):
        surrogate.axes = surrogate.axes.to(dtype)
        surrogate.load_statistics(surrogate.means, surrogate.weights, covariances)
        value, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z.to(dtype))
        assert_near(value, expected, rel)
        assert_near(gradient, slope, rel)


def test_with_one_full_component_it_is_the_leakage_bound():
    """On all features of the fit, but for the ridge of 1e-6."""
    y = torch.tensor([0] * 60 + [1] * 30 + [2] * 90)
    z = 0.1 * torch.randn(180, 5, generator=torch.Generator().manual_seed(0)) + y.unsqueeze(1)
    surrogate = made("full", 3, 5, clusters=1)
    surrogate.fit(z, y)
    bound = leakage_bound(z, y, NOISE_STD)
    assert float(surrogate(z, y)) * 5 == pytest.approx(bound, rel=1e-4)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_class_that_the_fit_never_saw_has_no_part(covariance):
    z, y, _ = batch("balanced")
    surrogate = made(covariance, 5, 8, clusters=2)
    surrogate.fit(z[y != 2], y[y != 2])
    _, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
    assert torch.equal(gradient[y == 2], torch.zeros(4, 8))
    assert all(gradient[y == c].abs().sum() > 0 for c in (0, 1, 3))
    assert surrogate.log()["classes"] == 3
    shares = torch.tensor([1, 1, 0, 1, 0]) / 3
    torch.testing.assert_close(surrogate.class_shares, shares.double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_fits_start_where_the_last_one_ended(covariance):
    """Fitting the same features again and again climbs to where nothing moves."""
    z, y, num_classes = batch("unequal")
    surrogate = made(covariance, num_classes, z.shape[1], clusters=2)
    for _ in range(5):
        surrogate.fit(z, y)
    before = deepcopy(surrogate.state_dict())
    surrogate.reseed(7)
    surrogate.fit(z, y)
    for name in ("means", "weights", "variances"):
        torch.testing.assert_close(getattr(surrogate, name), before[name], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["clustering", "gmm"])
def test_variances_fitted_elsewhere_may_be_one_number_or_one_for_each_dimension(name):
    z, y, num_classes = batch("balanced")
    narrow, wide = torch.full((num_classes, 2), 0.02), torch.full((num_classes, 2, 8), 0.02)
    means, weights = z[:8].view(4, 2, 8), torch.full((num_classes, 2), 0.5)
    options = [{}, {"variance": "diagonal"} if name == "clustering" else {"covariance": "full"}]
    for option in options:
        found = []
        for variances in (narrow, wide):
            surrogate = built(name, num_classes, 8, clusters=2, num_train=100, **option)
            surrogate.load_statistics(means, weights, variances)
            found.append(surrogate(z, y))
        assert found[0] == found[1] > 0
        for wrong in ((means[..., 1:], weights, narrow), (means, weights, wide[..., 1:])):
            with pytest.raises(
                ValueError,
                match=r"means, weights, variances: found .* expected \(4, 2, 8\), \(4, 2\)",
            ):
                surrogate.load_statistics(*wrong)


@pytest.mark.parametrize("far", [2.0, 100.0])
def test_log_counts_the_components_that_the_batch_reaches(far):
    """Responsibilities of far components are hardly or not above 0: one of three is reached."""
    surrogate = made("diagonal", 2, 1, clusters=2, num_train=8)
    means = torch.tensor([[[0.0], [far]], [[0.0], [far]]])
    weights, variances = torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.full((2, 2, 1), 0.01)
    surrogate.load_statistics(means, weights, variances)
    surrogate(torch.tensor([[0.1], [0.3]]), torch.tensor([0, 0]))
    notes = surrogate.log()
    assert notes["classes"] == 1
    assert notes["reached"] == pytest.approx(1 / 3)
    assert notes["active"] == 1
    assert notes["variance"] == pytest.approx(0.99 * 0.05 + 0.01 * 0.01)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_stored_variances_of_zero_are_survived(covariance):
    z, y, num_classes = batch("balanced")
    surrogate = made(covariance, num_classes, 8, clusters=2, num_train=100)
    variances = torch.zeros(4, 2, 8, *([8] if covariance == "full" else [])).double()
    weights = torch.full((num_classes, 2), 0.5)
    surrogate.load_statistics(z[:8].view(4, 2, 8), weights, variances)
    value, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
    assert value > 0
    assert gradient.isfinite().all()
    surrogate.fit(z, y)
    assert all(values.isfinite().all() for values in surrogate.state_dict().values())
