"""Shared gradients, what they reveal without a search, and their distances.

The references are autograd, torch's optimiser, Opacus, and numbers worked out by hand.
"""

import math
from dataclasses import replace

import numpy as np
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
from scipy.stats import norm
from torch import Tensor
from torch.nn import functional as F

from cemlib.config.federated import DpSgd, MaskConfig, Variant
from cemlib.config.federated_attacks import Combined, Cosine
from cemlib.federated.client import step_of
from cemlib.federated.inversion.closed_form import (
    estimated_mask,
    inferred_labels,
    recovered_features,
)
from cemlib.federated.inversion.combined import feature_misfit, loss_of
from cemlib.federated.inversion.cosine import cosine_objective
from cemlib.federated.inversion.gradients import (
    Gradients,
    Shared,
    absolute_variation,
    cosine_distance,
    gradient_function,
    squared_distance,
)
from cemlib.federated.inversion.lbfgs import Objective
from cemlib.federated.inversion.scene import shared_gradients
from cemlib.federated.inversion.search import gradient_misfit, labels_of, targets_of
from cemlib.federated.mask import draw_columns
from cemlib.federated.network import BIAS, WEIGHT, FederatedNet, weights_of
from cemlib.federated.private import draw_noise, epsilon, private_gradients
from cemlib.numerics.seeds import generator


@pytest.mark.parametrize("name", ["lenet", "resnet18"])
def test_gradients_are_those_of_each_problem_by_itself(name: str) -> None:
    net, (images, labels) = network(torch.float64, name=name), digits(6, torch.float64)
    targets = F.one_hot(labels, 10).double()
    found = gradient_function(net)(images.view(3, 2, 1, 8, 8), targets.view(3, 2, 10))
    for problem in range(3):
        rows = slice(2 * problem, 2 * problem + 2)
        net.zero_grad()
        F.cross_entropy(net(images[rows]), labels[rows]).backward()
        for name, weights in net.named_parameters():
            torch.testing.assert_close(found[name][problem], weights.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mask", [None, MaskConfig(beta=4), MaskConfig(order="soteria")])
def test_what_is_attacked_is_what_a_client_sends(mask: MaskConfig | None) -> None:
    net, where, variant = network(), scene(4), Variant(mask=mask)
    shared = shared_gradients(net, where, variant, 2, seed=9)
    for number in range(2):
        rows = slice(2 * number, 2 * number + 2)
        draws = generator(9, "inversion_columns", number)
        images, labels = where.images[rows], where.labels[rows]
        columns = () if mask is None else (draw_columns(mask.beta, 10, draws),)
        sent, _ = step_of(net, variant)(weights_of(net), images, labels, *columns)
        for name, value in sent.items():
            torch.testing.assert_close(shared.gradients[name][number], value, rtol=1e-4, atol=1e-7)


def test_an_update_is_the_mean_gradient_of_its_local_steps() -> None:
    """Against torch's optimiser; each step takes the next two images."""
    net, where = network(), scene(12)
    shared = shared_gradients(net, where, Variant(), 6, seed=0, steps=3, lr=0.2)
    targets = F.one_hot(where.labels, 10).float().view(2, 6, 10)
    simulated = gradient_function(net, 3, 0.2)(where.images.view(2, 6, 1, 8, 8), targets)
    for number in range(2):
        client = network()
        optimiser = torch.optim.SGD(client.parameters(), lr=0.2)
        for step in range(3):
            rows = slice(6 * number + 2 * step, 6 * number + 2 * step + 2)
            optimiser.zero_grad()
            F.cross_entropy(client(where.images[rows]), where.labels[rows]).backward()
            optimiser.step()
        found = dict(client.named_parameters())
        for name, before in net.named_parameters():
            mean = (before - found[name]).detach() / (3 * 0.2)
            for ours in (shared.gradients, simulated):
                torch.testing.assert_close(ours[name][number], mean, rtol=1e-3, atol=2e-6)


def test_zeros_show_the_mask_of_a_single_step_only() -> None:
    masked, zeros = Variant(mask=MaskConfig(alpha=0.5)), []
    for steps in (1, 4):
        shared = shared_gradients(network(), scene(8), masked, 4, seed=0, steps=steps, lr=0.2)
        zeros.append((estimated_mask(shared.gradients) == 0).float().mean().item())
    assert zeros[0] == 0.5
    assert zeros[1] < 0.4


def test_distances_by_hand() -> None:
    ours = {"a": torch.tensor([[3.0, 0.0], [1.0, 1.0]]), "b": torch.tensor([[0.0], [1.0]])}
    theirs = {"a": torch.tensor([[0.0, 4.0], [2.0, 2.0]]), "b": torch.tensor([[0.0], [2.0]])}
    assert squared_distance(ours, theirs).tolist() == [25, 3]
    assert cosine_distance(ours, theirs).tolist() == pytest.approx([1, 0], abs=1e-6)
    image = torch.tensor([[0.0, 1.0], [0.0, 3.0]]).view(1, 1, 1, 2, 2)
    assert absolute_variation(image).tolist() == [(0 + 2) / 2 + (1 + 3) / 2]


def test_the_angle_is_that_of_gradients_of_any_length() -> None:
    """Of a trained network they are short: squares of squares would not be numbers any more."""
    ours, theirs = ({"a": torch.tensor([[1.0, 0.0]])}, {"a": torch.tensor([[1.0, 1.0]])})
    for scale in (1e-12, 1e-6, 1e6):
        scaled = [{"a": scale * each["a"]} for each in (ours, theirs)]
        assert cosine_distance(*scaled).item() == pytest.approx(1 - math.sqrt(0.5), rel=1e-4)


def losses(net: FederatedNet, images: Tensor, labels: Tensor) -> dict[str, Objective]:
    where = net, undefended(net, images, labels), labels[:, None]
    squared = gradient_misfit(*where[:2], "ignored", squared_distance)
    targets = torch.eye(10, dtype=torch.float64)[labels][:, None]
    return {
        "squared": lambda x: squared(x, targets),
        "cosine": cosine_objective(*where, Cosine(tv_weight=0.1, prior_weight=0.2)),
        "combined": loss_of(*where, Combined(prior_weight=0.3)),
    }


def slope_of(net: FederatedNet, image: Tensor, label: Tensor) -> Tensor:
    loss = F.cross_entropy(net(image[None]), label[None])
    return torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(net.parameters()))])


def test_losses_are_the_sums_of_their_terms_by_hand() -> None:
    net, (images, labels) = network(torch.float64), digits(2, torch.float64)
    x = torch.rand(2, 1, 8, 8, dtype=torch.float64)
    found = {name: loss(x[:, None]) for name, loss in losses(net, images, labels).items()}
    for i, label in enumerate(labels):
        slopes = [slope_of(net, each[i], label) for each in (x, images)]
        squared = (slopes[0] - slopes[1]).square().sum().item()
        angle = 1 - F.cosine_similarity(*slopes, dim=0).item()
        down, right = (np.abs(np.diff(x[i, 0], axis=axis)).mean() for axis in (0, 1))
        far = (x[i] - class_means(torch.float64)[label]).square().mean().item()
        seen, true = (net.features(each[i : i + 1]) for each in (x, images))
        apart = ((seen - true).norm() / true.norm()).item() ** 2
        assert found["squared"][i].item() == pytest.approx(squared)
        assert found["cosine"][i].item() == pytest.approx(angle + 0.1 * (down + right) + 0.2 * far)
        assert found["combined"][i].item() == pytest.approx(angle + apart + 0.3 * far)


@pytest.mark.parametrize("kind", ["squared", "cosine", "combined"])
def test_every_term_of_a_loss_counts_in_its_slope(kind: str) -> None:
    loss = losses(network(torch.float64), *digits(2, torch.float64))[kind]
    start = torch.rand(2, 1, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(loss, (start,), eps=1e-6, atol=1e-5)


def flat(gradients: Gradients) -> Tensor:
    return torch.cat([value.flatten(1) for value in gradients.values()], dim=1)


def test_noise_has_its_standard_deviation_and_is_of_each_problem() -> None:
    one = scene(1)
    many = replace(one, trained=one.trained.expand(40, 1, 8, 8), labels=one.labels.expand(40))
    noisy, plain = (
        flat(shared_gradients(network(), many, Variant(dp_sgd=settings), 1, seed=0).gradients)
        for settings in (DpSgd(clip=2.0, noise_multiplier=n) for n in (0.5, 0.0))
    )
    assert (noisy - plain).std().item() == pytest.approx(1.0, rel=0.01)
    assert (noisy - plain).corrcoef().fill_diagonal_(0).abs().max() < 0.1


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_step_is_that_of_opacus(noise: float) -> None:
    optimizers = pytest.importorskip("opacus.optimizers")
    grad_sample = pytest.importorskip("opacus.grad_sample")
    images, labels = digits(4, torch.float32)
    weights = weights_of(network())
    drawn = draw_noise(weights, noise, torch.Generator().manual_seed(5))
    ours, _ = private_gradients(network(), weights, images, labels, drawn, clip=0.8)

    wrapped = grad_sample.GradSampleModule(network())
    optimiser = optimizers.DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=1.0),
        noise_multiplier=noise,
        max_grad_norm=0.8,
        expected_batch_size=4,
        generator=torch.Generator().manual_seed(5),
    )
    seen = images.clone().requires_grad_()  # its hooks warn of inputs without a slope
    F.cross_entropy(wrapped(seen), labels).backward()
    optimiser.pre_step()
    for name, parameter in wrapped.named_parameters():
        theirs = parameter.grad
        torch.testing.assert_close(
            ours[name.removeprefix("_module.")], theirs, rtol=1e-3, atol=1e-6
        )


@pytest.mark.parametrize("noise", [0.05, 0.5, 1.0, 5.0])
def test_epsilon_lies_between_the_exact_one_and_a_simple_bound(noise: float) -> None:
    """Of one step: the Gaussian mechanism's exact delta, and the textbook conversion."""
    pytest.importorskip("opacus")
    found = epsilon(DpSgd(noise_multiplier=noise, delta=1e-5))
    below, above = 0.5 / noise - found * noise, -0.5 / noise - found * noise
    exact = norm.cdf(below) - math.exp(found + norm.logcdf(above))
    assert exact <= 1e-5
    assert found <= 0.5 / noise**2 + math.sqrt(2 * math.log(1e5)) / noise + 1e-2


@pytest.mark.parametrize("noise", [5.0, 20.0, 100.0])
def test_epsilon_of_many_subsampled_steps_lies_between_two_bounds(
    noise: float,
) -> None:
    """Between that of one step, and that of steps on all images by Renyi divergence in closed form.

    Of 320 steps without subsampling, the divergence of order a is 320 a / (2 noise^2).
    """
    pytest.importorskip("opacus")
    one, many = (epsilon(DpSgd(noise_multiplier=noise), 0.1, steps) for steps in (1, 320))
    assert 0 <= one <= many
    orders = np.linspace(1.1, 400, 4000)
    whole = 320 * orders / (2 * noise**2) + math.log(1e5) / (orders - 1)
    assert many <= whole.min()


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


def test_labels_of_a_batch_by_hand() -> None:
    """Uniform probabilities over 4 classes; of 4 images two of class 0, one of 1, one of 3."""
    gradient = torch.full((4,), 0.25) - torch.tensor([2.0, 1.0, 0.0, 1.0]) / 4
    shared = Shared({BIAS: gradient[None]}, class_means(), batch=4)
    assert sorted(inferred_labels(shared)[0].tolist()) == [0, 0, 1, 3]


@pytest.mark.parametrize("lr", [0.1, 0.01])
def test_labels_of_local_steps_come_in_their_order(lr: float) -> None:
    """In that order, and in no other, the update of the true images is the shared one."""
    net, where = network(), scene(80)
    shared = shared_gradients(net, where, Variant(), 4, seed=0, steps=4, lr=lr)
    true, found = where.labels.view(-1, 4), labels_of(net, shared)
    assert torch.equal(found, true)
    misfit, images = gradient_misfit(net, shared, "ignored", cosine_distance), where.images
    right, wrong = (
        misfit(images.view(-1, 4, *SHAPE), targets_of(net, shared, labels))
        for labels in (found, inferred_labels(shared))
    )
    assert right.max() < 1e-5
    assert wrong.median() > 100 * right.max()


@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 5), (0.9, 9), (0.5, None), (0.1, 1)])
def test_the_mask_is_read_off_the_zeros(alpha: float, beta: int | None) -> None:
    variant = Variant(mask=MaskConfig(alpha=alpha, beta=beta))
    shared = shared_gradients(network(), scene(6), variant, 1, seed=3)
    assert (shared.mask == 0).any()
    assert torch.equal(estimated_mask(shared.gradients), shared.mask)


def test_a_whole_masked_layer_adds_no_term_of_features() -> None:
    """An attacker who ignores the mask takes the zeros for features that are 0."""
    net, where = network(), scene(2)
    shared = shared_gradients(net, where, Variant(mask=MaskConfig(alpha=1.0)), 1, seed=3)
    term = feature_misfit(net, shared, "ignored")(where.images.view(-1, 1, *SHAPE))
    assert torch.equal(term, torch.zeros(len(term)))


def test_an_output_without_a_gradient_hides_no_mask() -> None:
    """Its zeros are its own; feature 1 was pruned for all others."""
    bias, features = torch.tensor([[0.5, -0.5, 0.0]]), torch.tensor([2.0, 0.0, 3.0])
    found = estimated_mask({BIAS: bias, WEIGHT: bias[:, :, None] * features})
    assert found[0, :2].tolist() == [[1, 0, 1], [1, 0, 1]]
