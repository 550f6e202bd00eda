"""What holds for every option of the surrogates that are fitted at an epoch's end."""

import pytest
import torch
from test_surrogate_common import WAITING, Operators

from cemlib.surrogates.clustering import Clustering
from cemlib.surrogates.fitted import blend
from cemlib.surrogates.gmm import GaussianMixture

OPTIONS = [
    (Clustering, {"variance": "diagonal"}),
    (Clustering, {"variance": "diagonal", "reference_indexing": True}),
    (Clustering, {"form": "batch"}),
    (Clustering, {"gate": "linear"}),
    (GaussianMixture, {"covariance": "full"}),
]


def operators(kind, options, labels):
    """Operators of a step on 24 samples of the labels 0 .. labels - 1."""
    surrogate = kind(dim=8, num_classes=labels, noise_std=0.025, **options)
    y = torch.arange(10 * labels) % labels
    surrogate.fit(torch.rand(len(y), 8), y)
    z, y = torch.rand(24, 8, requires_grad=True), torch.arange(24) % labels
    with Operators() as seen:
        surrogate(z, y).backward()
    return seen.names


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_a_step_never_waits_and_loops_over_nothing(kind, options):
    few, many = (operators(kind, options, labels) for labels in (2, 8))
    assert not WAITING & set(few)
    assert len(few) == len(many)


def test_blend_is_ten_times_the_share_of_the_batch_up_to_its_limit():
    """Of 100 images a cluster has 50, 2.5 and none; at 10 n >= the share it is .99."""
    members = torch.tensor([2.0, 5.0, 0.0, 0.25, 0.0, 1.0])
    weights = torch.tensor([0.5, 0.5, 0.5, 0.025, 0.0, 0.0])
    expected = torch.tensor([0.4, 0.99, 0.0, 0.99, 0.99, 0.99])
    torch.testing.assert_close(blend(members, weights, torch.tensor(100.0)), expected)


@pytest.mark.parametrize("kind", [Clustering, GaussianMixture])
def test_the_number_of_training_images_comes_from_the_fit_unless_given(kind):
    z, y = torch.rand(12, 4), torch.arange(12) % 2
    taken, given = (
        kind(dim=4, num_classes=2, noise_std=0.1, clusters=2, num_train=number)
        for number in (None, 7)
    )
    for surrogate in (taken, given):
        surrogate.fit(z, y)
    assert (int(taken.num_train), int(given.num_train)) == (12, 7)


@pytest.mark.parametrize("kind", [Clustering, GaussianMixture])
def test_numbers_out_of_range_are_refused(kind):
    for option in ("clusters", "num_train"):
        with pytest.raises(ValueError, match=f"{option} is 0; it must be at least 1"):
            kind(dim=4, num_classes=2, noise_std=0.1, **{option: 0})
