import mixture_references as reference
import pytest
import torch
from mixture_references import assert_equal_to, loaded, stored
from surrogate_batches import BATCHES, NOISE_STD, batch, built

BLENDED = [{}, {"variance": "diagonal"}, {"reference_indexing": True}]
BLENDED.append(BLENDED[1] | BLENDED[2])


def holding(*statistics, num_train=1, **options):
    """A surrogate with given means, weights and variances."""
    num_classes, clusters, dim = statistics[0].shape
    options |= {"clusters": clusters, "num_train": num_train}
    surrogate = built("clustering", num_classes, dim, **options)
    surrogate.load_statistics(*statistics)
    return surrogate


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("clusters", [1, 3])
@pytest.mark.parametrize("gate", ["log", "linear"])
@pytest.mark.parametrize("num_train", [10, 3000])
@pytest.mark.parametrize("options", BLENDED)
def test_the_blended_form_equals_the_loops(name, clusters, gate, num_train, options):
    z, y, num_classes = batch(name)
    given = {"num_train": num_train, "gate": gate}
    surrogate = loaded("clustering", num_classes, z.shape[1], clusters, **given, **options)
    given |= {"indexing": options.get("reference_indexing", False)}
    statistics = stored(surrogate)
    assert_equal_to(lambda z: reference.clustering(z, y, *statistics, **given), surrogate, z, y)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("clusters", [1, 3])
@pytest.mark.parametrize("gate", ["log", "linear"])
@pytest.mark.parametrize("var_threshold", [0.125, 200.0])
def test_the_batch_form_equals_the_loops(name, clusters, gate, var_threshold):
    """The larger threshold puts some classes below the ceiling of 0.125, others above."""
    z, y, num_classes = batch(name)
    options = {"form": "batch", "gate": gate, "var_threshold": var_threshold}
    surrogate = loaded("clustering", num_classes, z.shape[1], clusters, **options)
    means, weights, _ = stored(surrogate)
    tau = var_threshold * NOISE_STD**2
    assert_equal_to(
        lambda z: reference.clustering_of_batch(z, y, means, weights, tau=tau, gate=gate),
        surrogate,
        z,
        y,
    )


@pytest.mark.parametrize("name", ["clustering", "gmm"])
def test_the_number_of_training_images_comes_from_the_fit(name):
    surrogate = built(name, 2, 4, clusters=2)
    surrogate.fit(torch.rand(12, 4), torch.arange(12) % 2)
    assert surrogate.num_train == 12


def test_log_counts_active_hinges_and_empty_clusters():
    """Ceiling .02: clusters (0, 0) and (1, 0) hold .0099 and .99; only the second is above."""
    means = torch.tensor([[[0.0], [5.0]], [[0.0], [5.0]]])
    weights = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    surrogate = holding(means, weights, torch.zeros(2, 2), noise_std=0.4, num_train=2)
    surrogate(torch.tensor([[0.1], [1.0]]), torch.tensor([0, 1]))
    notes = surrogate.log()
    assert (notes["active"], notes["empty"], notes["classes"]) == (0.5, 0.25, 2)
    assert notes["variance"] == pytest.approx(0.99 * (0.01 + 1) / 2)


def test_classes_count_where_a_cluster_of_the_batch_has_a_weight():
    """Class 1's only sample is nearest to a cluster of weight 0; class 2 is not in the batch."""
    means = torch.tensor([[0.0], [5.0]]).expand(3, 2, 1)
    weights = torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])
    surrogate = holding(means, weights, torch.zeros(3, 2), num_train=2)
    surrogate(torch.tensor([[0.1], [4.0], [5.0]]), torch.tensor([0, 0, 1]))
    assert surrogate.log()["classes"] == 1


def test_the_public_codes_row_is_nearly_always_the_first_classs():
    """Almost only stored variance counts: a is 2e-4 and 1e-4."""
    means, variances = torch.zeros(4, 1, 1), torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    options = {"num_train": 400_000, "gate": "linear", "reference_indexing": True}
    surrogate, z = holding(means, torch.ones(4, 1), variances, **options), torch.zeros(3, 1)
    # Classes 1 and 3, of 2 and 1 samples: in label order both first rows are of class 1, which
    # holds 2. Classes 1, 2 and 3 with one sample each read their own rows, 2, 3 and 4.
    for labels, expected in (([3, 1, 1], 2.001), ([2, 3, 1], 3.001)):
        value = surrogate(z, torch.tensor(labels))
        assert float(value) == pytest.approx(expected, rel=2e-4)


def test_diagonal_penalises_each_dimension():
    """One dimension under the ceiling, one above: the mean over both hides neither."""
    options = {"noise_std": 1.0, "num_train": 10, "variance": "diagonal", "var_threshold": 0.1}
    zeros = torch.zeros(1, 1, 2)
    surrogate = holding(zeros, torch.ones(1, 1), zeros, **options)
    value = surrogate(torch.tensor([[0.6, 0.0], [-0.6, 0.0]]), torch.tensor([0, 0]))
    hinge = torch.tensor((0.99 * 0.36 + 0.01) / 0.11).log()
    torch.testing.assert_close(value, hinge / 2)
    assert surrogate.log()["active"] == 0.5


def test_diagonal_fits_a_variance_per_dimension():
    z, y, num_classes = batch("balanced")
    diagonal, scalar = (
        built("clustering", num_classes, 8, clusters=2, variance=variance)
        for variance in ("diagonal", "scalar")
    )
    for surrogate in (diagonal, scalar):
        surrogate.fit(z, y)
    nearest = torch.cdist(z[y == 1], diagonal.means[1]).argmin(1)
    for k in range(2):
        members = z[y == 1][nearest == k]
        torch.testing.assert_close(diagonal.variances[1, k], members.var(0, correction=0))
    torch.testing.assert_close(diagonal.variances.mean(-1), scalar.variances)


@pytest.mark.parametrize("option", [{"variance": "diagonal"}, {"reference_indexing": True}])
def test_options_without_a_meaning_in_the_batch_form_are_refused(option):
    with pytest.raises(ValueError, match=f"{next(iter(option))} is .*form 'batch' allows only"):
        built("clustering", 2, 3, form="batch", **option)
