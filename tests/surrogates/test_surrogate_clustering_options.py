"""The clustering surrogate with other options than the published ones."""

import mixture_references as reference
import pytest
import torch
from mixture_references import assert_equal_to, loaded, stored
from surrogate_batches import BATCHES, batch

from cemlib.surrogates.clustering import Clustering

NOISE_STD = 0.025
DIAGONAL, INDEXING = {"variance": "diagonal"}, {"reference_indexing": True}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("gate", ["log", "linear"])
@pytest.mark.parametrize("num_train", [10, 3000])
@pytest.mark.parametrize("options", [DIAGONAL, INDEXING, DIAGONAL | INDEXING])
def test_the_options_of_the_blended_form_equal_the_loops(name, gate, num_train, options):
    z, y, num_classes = batch(name)
    surrogate = loaded(
        Clustering, num_classes, z.shape[1], 3, num_train=num_train, gate=gate, **options
    )
    means, weights, variances = stored(surrogate)

    def by_options(z):
        return reference.clustering(
            z,
            y,
            means,
            weights,
            variances,
            num_train=num_train,
            noise_std=NOISE_STD,
            gate=gate,
            gamma=0.01,
            indexing=surrogate.reference_indexing,
        )

    assert_equal_to(by_options, surrogate, z, y)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("clusters", [1, 3])
@pytest.mark.parametrize("gate", ["log", "linear"])
@pytest.mark.parametrize("var_threshold", [0.125, 200.0])
def test_the_batch_form_equals_the_loops(name, clusters, gate, var_threshold):
    """The larger threshold puts some classes below the ceiling of 0.125, others above."""
    z, y, num_classes = batch(name)
    dim = z.shape[1]
    surrogate = loaded(
        Clustering,
        num_classes,
        dim,
        clusters,
        num_train=None,
        form="batch",
        gate=gate,
        var_threshold=var_threshold,
    )
    means, weights, _ = stored(surrogate)
    tau = var_threshold * NOISE_STD**2
    assert_equal_to(
        lambda z: reference.clustering_of_batch(z, y, means, weights, tau=tau, gate=gate),
        surrogate,
        z,
        y,
    )


def worked(gate):
    """Three classes of two points whose mean squared norm about the centre is 0.0125."""
    surrogate = Clustering(
        dim=2,
        num_classes=3,
        noise_std=1.0,
        clusters=1,
        form="batch",
        gate=gate,
        var_threshold=0.05,
    )
    z = torch.tensor([[0, 0], [0.2, 0.1], [1, 1], [1.2, 1.1], [1, -1], [0.8, -0.9]])
    y = torch.tensor([0, 0, 1, 1, 2, 2])
    centres = torch.stack([z[y == c].mean(0) for c in range(3)]).unsqueeze(1)
    surrogate.load_statistics(centres, torch.ones(3, 1), torch.zeros(3, 1))
    return surrogate, z, y


def test_the_batch_form_gives_the_worked_example():
    surrogate, z, y = worked("linear")
    assert float(surrogate(z, y)) == pytest.approx(0.0125, rel=1e-6)
    assert surrogate.log()["variance"] == pytest.approx(0.0125, rel=1e-6)
    surrogate, z, y = worked("log")
    assert float(surrogate(z, y)) == 0
    assert surrogate.log()["active"] == 0


def test_the_batch_form_acts_on_the_sum_over_a_classs_clusters():
    """Squared norms .04 and .01 at weights .7 and .3: s = .031, above the ceiling of .02."""
    surrogate = Clustering(
        dim=2, num_classes=2, noise_std=0.4, clusters=2, form="batch", var_threshold=0.125
    )
    surrogate.load_statistics(
        torch.tensor([[[0.0, 0.0], [1.0, 1.0]], [[5.0, 5.0], [6.0, 6.0]]]),
        torch.tensor([[0.7, 0.3], [0.5, 0.5]]),
        torch.zeros(2, 2),
    )
    z = torch.tensor([[0.2, 0.0], [1.0, 1.1], [5.0, 5.0]])
    value = surrogate(z, torch.tensor([0, 0, 1]))
    hinge = torch.tensor((0.031 + 1e-6) / (0.02 + 1e-6)).log()
    torch.testing.assert_close(value, 2 / 3 * hinge, rtol=1e-4, atol=0)
    assert surrogate.log()["active"] == 0.5
    assert surrogate.log()["classes"] == 2


def test_the_public_codes_row_is_nearly_always_the_first_classs():
    """Classes 1 and 3, of 2 and 1 samples: in label order both first rows are of class 1."""
    means = torch.zeros(4, 1, 1)
    variances = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    surrogate = Clustering(
        dim=1,
        num_classes=4,
        noise_std=NOISE_STD,
        clusters=1,
        num_train=400_000,
        gate="linear",
        reference_indexing=True,
    )
    surrogate.load_statistics(means, torch.ones(4, 1), variances)
    z = torch.zeros(3, 1)
    # Almost only stored variance: a is 2e-4 and 1e-4. Both classes read 2, not 2 and 4.
    value = surrogate(z, torch.tensor([3, 1, 1]))
    assert float(value) == pytest.approx(2.001, rel=2e-4)
    # Classes 1, 2 and 3 with one sample each read their own rows, 2, 3 and 4.
    value = surrogate(z, torch.tensor([2, 3, 1]))
    assert float(value) == pytest.approx(3.001, rel=2e-4)


def test_diagonal_penalises_each_dimension():
    """One dimension under the ceiling, one above: the mean over both hides neither."""
    statistics = (torch.zeros(1, 1, 2), torch.ones(1, 1))
    options = {"dim": 2, "num_classes": 1, "noise_std": 1.0, "clusters": 1, "num_train": 10}
    diagonal = Clustering(**options, variance="diagonal", var_threshold=0.1)
    diagonal.load_statistics(*statistics, torch.zeros(1, 1, 2))
    z = torch.tensor([[0.6, 0.0], [-0.6, 0.0]])
    hinge = torch.tensor((0.99 * 0.36 + 0.01) / 0.11).log()
    torch.testing.assert_close(diagonal(z, torch.tensor([0, 0])), hinge / 2)
    assert diagonal.log()["active"] == 0.5


def test_diagonal_fits_a_variance_per_dimension():
    z, y, num_classes = batch("balanced")
    fitted = {
        variance: Clustering(
            dim=8, num_classes=num_classes, noise_std=NOISE_STD, clusters=2, variance=variance
        )
        for variance in ("scalar", "diagonal")
    }
    for surrogate in fitted.values():
        surrogate.fit(z, y)
    nearest = torch.cdist(z[y == 1], fitted["diagonal"].means[1]).argmin(1)
    for k in range(2):
        members = z[y == 1][nearest == k]
        torch.testing.assert_close(fitted["diagonal"].variances[1, k], members.var(0, correction=0))
    torch.testing.assert_close(
        fitted["diagonal"].statistics()["variances"], fitted["scalar"].variances
    )


def test_diagonal_takes_one_variance_per_cluster_for_all_dimensions():
    options = {"dim": 3, "num_classes": 2, "noise_std": NOISE_STD, "clusters": 2, "num_train": 5}
    one, each = (Clustering(**options, variance="diagonal") for _ in range(2))
    means, weights, variances = torch.rand(2, 2, 3), torch.full((2, 2), 0.5), torch.rand(2, 2)
    one.load_statistics(means, weights, variances)
    each.load_statistics(means, weights, torch.stack([variances] * 3, -1))
    z, y = torch.rand(6, 3), torch.arange(6) % 2
    assert torch.equal(one(z, y), each(z, y))
    with pytest.raises(ValueError, match=r"variances has shape \(2, 3\), expected \(2, 2\)"):
        one.load_statistics(means, weights, torch.zeros(2, 3))


@pytest.mark.parametrize("option", [DIAGONAL, INDEXING])
def test_options_without_a_meaning_in_the_batch_form_are_refused(option):
    with pytest.raises(ValueError, match=f"{next(iter(option))} is .*form 'batch' allows only"):
        Clustering(dim=3, num_classes=2, noise_std=NOISE_STD, form="batch", **option)


@pytest.mark.parametrize("option", ["variance", "form", "gate"])
def test_unknown_words_are_refused(option):
    with pytest.raises(ValueError, match=f"{option} is 'best'; it must be one of"):
        Clustering(dim=3, num_classes=2, noise_std=NOISE_STD, **{option: "best"})


def test_the_batch_form_needs_no_number_of_training_images():
    surrogate = Clustering(dim=3, num_classes=2, noise_std=NOISE_STD, clusters=2, form="batch")
    surrogate.load_statistics(torch.zeros(2, 2, 3), torch.ones(2, 2) / 2, torch.zeros(2, 2))
    assert surrogate(torch.rand(4, 3), torch.tensor([0, 0, 1, 1])) > 0
