"""What a gradient tells without any search: the last layer's input, the label, the mask."""

import pytest
import torch
from inversion_scenes import (
    SHAPE,
    class_means,
    digits,
    flat_network,
    network,
    scene,
    undefended,
)

from cemlib.config.federated import MaskConfig, Variant
from cemlib.federated.inversion.closed_form import (
    estimated_mask,
    inferred_labels,
    recovered_features,
)
from cemlib.federated.inversion.gradients import Shared
from cemlib.federated.inversion.scene import shared_gradients
from cemlib.federated.network import BIAS, WEIGHT, FederatedNet

EXACT = 1e-10


@pytest.mark.parametrize("net", [network(torch.float64), flat_network()], ids=["lenet", "linear"])
@pytest.mark.parametrize("pruned", [0, 9, 10])
def test_the_last_layers_input_is_recovered_exactly(net: FederatedNet, pruned: int) -> None:
    """For a linear classifier it is the image; a feature pruned for all outputs is not known."""
    images, labels = digits(4, torch.float64)
    whole = undefended(net, images, labels).gradients
    mask = torch.ones_like(whole[WEIGHT])
    mask[:, :pruned, ::3] = 0
    shared = {**whole, WEIGHT: whole[WEIGHT] * mask}
    found, known = recovered_features(shared, mask)
    readable = mask.amax(1)
    expected = net.features(images).detach() * readable
    torch.testing.assert_close(found, expected, rtol=0, atol=EXACT)
    assert torch.equal(known, readable.bool())


def test_labels_of_single_images_are_always_right() -> None:
    images, labels = digits(200)
    for seed in range(3):
        found = inferred_labels(undefended(network(seed=seed), images, labels))
        assert torch.equal(found[:, 0], labels)


def test_a_mask_hides_no_label() -> None:
    where = scene(16)
    variant = Variant(mask=MaskConfig(alpha=0.9))
    shared = shared_gradients(network(), where, variant, 1, seed=0)
    assert torch.equal(inferred_labels(shared)[:, 0], where.labels)


def test_labels_of_a_batch_by_hand() -> None:
    """Uniform probabilities over 4 classes; of 4 images two of class 0, one of 1, one of 3."""
    gradient = torch.full((4,), 0.25) - torch.tensor([2.0, 1.0, 0.0, 1.0]) / 4
    shared = Shared({BIAS: gradient[None]}, SHAPE, class_means(), batch=4)
    assert sorted(inferred_labels(shared)[0].tolist()) == [0, 0, 1, 3]


@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 5), (0.9, 9), (0.5, None), (0.1, 1)])
def test_the_mask_is_read_off_the_zeros(alpha: float, beta: int | None) -> None:
    variant = Variant(mask=MaskConfig(alpha=alpha, beta=beta))
    shared = shared_gradients(network(), scene(6), variant, 1, seed=3)
    assert shared.mask is not None
    assert (shared.mask == 0).any()
    assert torch.equal(estimated_mask(shared.gradients), shared.mask)


def test_an_output_without_a_gradient_hides_no_mask() -> None:
    """Its zeros are its own; feature 1 was pruned for all others."""
    bias, features = torch.tensor([[0.5, -0.5, 0.0]]), torch.tensor([2.0, 0.0, 3.0])
    found = estimated_mask({BIAS: bias, WEIGHT: bias[:, :, None] * features})
    assert found[0, :2].tolist() == [[1, 0, 1], [1, 0, 1]]
