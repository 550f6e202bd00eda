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
from cemlib.federated.inversion.gradients import Gradients, Shared
from cemlib.federated.inversion.scene import shared_gradients
from cemlib.federated.network import BIAS, WEIGHT

EXACT = 1e-10


def test_the_last_layers_input_is_recovered_exactly() -> None:
    net, (images, labels) = network(torch.float64), digits(8, torch.float64)
    found, known = recovered_features(undefended(net, images, labels).gradients)
    torch.testing.assert_close(found, net.features(images).detach(), rtol=0, atol=EXACT)
    assert known.all()


def test_of_a_linear_classifier_the_image_itself_is_recovered() -> None:
    net, (images, labels) = flat_network(), digits(8, torch.float64)
    found, _ = recovered_features(undefended(net, images, labels).gradients)
    recovered = (found.view(images.shape) + 1) / 2
    torch.testing.assert_close(recovered, images, rtol=0, atol=EXACT)


def test_outputs_that_are_not_pruned_still_tell_every_feature() -> None:
    net, (images, labels) = network(torch.float64), digits(4, torch.float64)
    whole = undefended(net, images, labels)
    mask = torch.ones_like(whole.gradients[WEIGHT])
    mask[:, :9] = (torch.arange(48) % 2).double()  # nine of ten outputs lose half the features
    pruned = {**whole.gradients, WEIGHT: whole.gradients[WEIGHT] * mask}
    found, known = recovered_features(pruned, estimated_mask(pruned))
    torch.testing.assert_close(found, net.features(images).detach(), rtol=0, atol=EXACT)
    assert known.all()


def test_features_pruned_for_every_output_are_not_known() -> None:
    net, (images, labels) = network(torch.float64), digits(4, torch.float64)
    whole = undefended(net, images, labels)
    mask = (torch.arange(48) % 3 > 0).double().expand(4, 10, 48)
    pruned = {**whole.gradients, WEIGHT: whole.gradients[WEIGHT] * mask}
    found, known = recovered_features(pruned, estimated_mask(pruned))
    expected = net.features(images).detach() * mask[:, 0]
    torch.testing.assert_close(found, expected, rtol=0, atol=EXACT)
    assert torch.equal(known, mask[:, 0].bool())


def test_the_label_of_a_hand_computed_gradient() -> None:
    """Logits (0, ln 2, ln 3) have probabilities (1, 2, 3) / 6; the class is 2."""
    gradient = torch.tensor([1.0, 2.0, 3.0]) / 6 - torch.tensor([0.0, 0.0, 1.0])
    assert gradient.tolist() == pytest.approx([1 / 6, 1 / 3, -1 / 2])
    shared = Shared({BIAS: gradient[None]}, SHAPE, class_means())
    assert inferred_labels(shared).tolist() == [[2]]


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


def test_a_feature_that_is_zero_by_itself_is_not_taken_for_pruned() -> None:
    mask = torch.tensor([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert estimated_mask(last_layer([0.5, -0.5], [2.0, 0.0, 3.0], mask)).tolist() == [
        [[0, 1, 1], [1, 1, 1]]
    ]


def test_an_output_without_a_gradient_hides_no_mask() -> None:
    """Its zeros are its own; feature 1 was pruned for all others."""
    mask = torch.tensor([1.0, 0.0, 1.0]).expand(3, 3)
    found = estimated_mask(last_layer([0.5, -0.5, 0.0], [2.0, 1.0, 3.0], mask))
    assert found[0, :2].tolist() == [[1, 0, 1], [1, 0, 1]]


def last_layer(bias: list[float], features: list[float], mask: torch.Tensor) -> Gradients:
    """The last layer's gradient of one image, pruned."""
    outer = torch.tensor(bias)[:, None] * torch.tensor(features)
    return {BIAS: torch.tensor([bias]), WEIGHT: (outer * mask)[None]}
