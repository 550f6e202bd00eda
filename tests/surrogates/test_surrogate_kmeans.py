import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from surrogate_batches import generator, shuffled_labels

from cemlib.surrogates import kmeans
from cemlib.surrogates.kmeans import fit_clusters


def nothing(num_classes, clusters, dim, dtype=torch.float32):
    """Means and weights of classes that have no clusters yet."""
    means = torch.zeros(num_classes, clusters, dim, dtype=dtype)
    return means, torch.zeros(num_classes, clusters, dtype=dtype)


def started(means):
    """Means and weights of a fit whose centroids are to be started from."""
    return means, torch.full(means.shape[:2], 1 / means.shape[1], dtype=means.dtype)


def unequal_classes(sizes, dim):
    y = shuffled_labels(sizes)
    return torch.randn(len(y), dim, generator=generator(1), dtype=torch.float64), y


def assert_statistics(z, members, labels, clusters, c):
    """Weights and variances of class c from scratch, cluster by cluster."""
    for k, mean in enumerate(clusters.means[c].numpy()):
        mine = z[members][labels == k].numpy()
        spread = np.square(mine - mean).mean(0) if len(mine) else np.zeros(len(mean))
        assert float(clusters.weights[c, k]) == pytest.approx(len(mine) / int(members.sum()))
        np.testing.assert_allclose(clusters.variances[c, k], spread, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(("clusters", "dim"), [(1, 3), (3, 2), (5, 16)])
@pytest.mark.parametrize("steps", [2, 50])
def test_equals_scikit_learn_from_the_same_start(clusters, dim, steps, monkeypatch):
    monkeypatch.setattr(kmeans, "MAX_STEPS", steps)
    z, y = unequal_classes([40, 25, 60], dim)
    start = torch.stack([z[y == c][:clusters] for c in range(3)])
    found = fit_clusters(z, y, *started(start), generator())
    for c in range(3):
        members = y == c
        model = KMeans(
            clusters, init=start[c].numpy(), n_init=1, max_iter=steps, tol=0, algorithm="lloyd"
        )
        labels = model.fit_predict(z[members].numpy())
        np.testing.assert_allclose(found.means[c], model.cluster_centers_, rtol=1e-9, atol=1e-12)
        assert_statistics(z, members, labels, found, c)


def test_float32_far_from_the_origin_keeps_its_digits():
    """A spread of .001 about 1: distances from |x|^2 - 2 x c + |c|^2 alone would be noise."""
    z, y = unequal_classes([200, 150], 64)
    z = 1 + 0.001 * z
    start = torch.stack([z[y == c][:3] for c in range(2)])
    exact = fit_clusters(z, y, *started(start), generator())
    found = fit_clusters(z.float(), y, *started(start.float()), generator())
    torch.testing.assert_close(found.weights, exact.weights.float())
    torch.testing.assert_close(found.variances, exact.variances.float(), rtol=1e-3, atol=0)


def test_plus_plus_finds_separated_blobs():
    """Where blobs are far apart every start has one centroid in each, so the fit is exact."""
    y = torch.arange(600) % 3
    blob = torch.arange(600) // 3 % 4
    centres = 1000.0 * torch.eye(4)[blob]
    z = centres + torch.randn(600, 4, generator=generator())
    found = fit_clusters(z, y, *nothing(3, 4, 4), generator())
    torch.testing.assert_close(found.weights, torch.full((3, 4), 0.25))
    assert float(found.variances.max()) < 1.5


def test_plus_plus_draws_in_proportion_to_squared_distance(monkeypatch):
    """Points 0, 1 and 3 in 3000 classes: after 0 the next is 3 with chance 9 / 10."""
    monkeypatch.setattr(kmeans, "MAX_STEPS", 0)
    classes = 3000
    z = torch.tensor([0.0, 1.0, 3.0]).repeat(classes).unsqueeze(1)
    y = torch.arange(classes).repeat_interleave(3)
    starts = fit_clusters(z, y, *nothing(classes, 2, 1), generator()).means[..., 0]
    first = starts[:, 0].round()
    for point in (0, 1, 3):
        assert float((first == point).float().mean()) == pytest.approx(1 / 3, abs=0.04)
    second = starts[first == 0, 1].round()
    assert float((second == 3).float().mean()) == pytest.approx(0.9, abs=0.04)


def test_classes_smaller_than_the_clusters_leave_the_others_alone():
    z, y = unequal_classes([30, 2, 0, 40], 5)
    found = fit_clusters(z, y, *nothing(4, 3, 5, z.dtype), generator())
    assert sorted(found.weights[1].tolist()) == [0, 0.5, 0.5]
    assert torch.equal(found.weights[2], torch.zeros(3, dtype=z.dtype))
    assert torch.equal(found.variances[1:3], torch.zeros(2, 3, 5, dtype=z.dtype))
    for c in (0, 3):
        members = y == c
        distances = torch.cdist(z[members], found.means[c])
        assert_statistics(z, members, distances.argmin(1).numpy(), found, c)
        assert float(found.weights[c].sum()) == pytest.approx(1)


def test_an_empty_cluster_keeps_its_place_and_shifts_no_other():
    z, y = unequal_classes([50], 2)
    two = z[:2].unsqueeze(0)
    far = torch.cat([torch.full((1, 1, 2), 1e4, dtype=z.dtype), two], dim=1)
    without = fit_clusters(z, y, *started(two), generator())
    found = fit_clusters(z, y, *started(far), generator())
    torch.testing.assert_close(found.means[:, 1:], without.means)
    torch.testing.assert_close(found.variances[:, 1:], without.variances)
    torch.testing.assert_close(found.means[0, 0], far[0, 0])
    assert float(found.weights[0, 0]) == float(found.variances[0, 0].max()) == 0


def test_equal_features_are_one_cluster():
    z = torch.full((20, 4), 0.7)
    found = fit_clusters(z, torch.arange(20) % 2, *nothing(2, 3, 4), generator())
    assert found.weights.sort(1).values.tolist() == [[0, 0, 1], [0, 0, 1]]
    torch.testing.assert_close(found.means, torch.full((2, 3, 4), 0.7))
    assert float(found.variances.max()) < 1e-12


def test_a_class_that_appears_later_is_seeded_then(monkeypatch):
    """Its start is drawn from its members; the other class starts from its own centroids."""
    z, y = unequal_classes([30, 20], 3)
    first = fit_clusters(z[y == 0], y[y == 0], *nothing(2, 3, 3, z.dtype), generator())
    monkeypatch.setattr(kmeans, "MAX_STEPS", 0)
    second = fit_clusters(z, y, first.means, first.weights, generator())
    assert float(first.weights[1].sum()) == 0
    torch.testing.assert_close(second.means[0], first.means[0])
    nearest = torch.cdist(second.means[1], z[y == 1]).min(1)
    torch.testing.assert_close(nearest.values, torch.zeros(3, dtype=z.dtype), atol=1e-6, rtol=0)
    assert len(set(nearest.indices.tolist())) == 3


def test_results_do_not_depend_on_the_block(monkeypatch):
    """With the small one every class is alone, the empty ones as well."""
    z, y = unequal_classes([30, 5, 0, 80, 12, 0], 6)
    whole = fit_clusters(z, y, *nothing(6, 3, 6, z.dtype), generator(4))
    monkeypatch.setattr(kmeans, "BLOCK", 10)
    pieces = fit_clusters(z, y, *nothing(6, 3, 6, z.dtype), generator(4))
    torch.testing.assert_close(pieces, whole)
