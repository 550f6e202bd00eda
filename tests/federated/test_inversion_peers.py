"""DP-SGD against a hand-computed case, Opacus' optimiser, and bounds of its accountant."""

import math

import pytest
import torch
from inversion_scenes import digits, network
from scipy.stats import norm
from torch import Tensor
from torch.nn import functional as F

from cemlib.config.federated_attacks import DpSgd
from cemlib.federated.inversion.gradients import Gradients, true_gradients
from cemlib.federated.inversion.variants import dp_sgd_gradients
from cemlib.federated.private import epsilon


def test_the_gradient_of_each_image_is_clipped_as_a_whole() -> None:
    net, (images, labels) = network(), digits(3)
    problems = images[:, None], labels[:, None]
    whole = flat(true_gradients(net, *problems))
    draws = [torch.Generator() for _ in labels]
    bound = float(whole.norm(dim=1).sort().values[1]) * 1.01  # one of the three is longer
    settings = DpSgd(clip=bound, noise_multiplier=0.0)
    clipped = flat(dp_sgd_gradients(net, *problems, settings, draws))
    expected = whole * (bound / whole.norm(dim=1, keepdim=True)).clamp(max=1)
    torch.testing.assert_close(clipped, expected, rtol=1e-4, atol=1e-6)
    assert (whole.norm(dim=1) > bound).sum() == 1


def flat(gradients: Gradients) -> Tensor:
    return torch.cat([value.flatten(1) for value in gradients.values()], dim=1)


def test_noise_has_its_standard_deviation_and_is_of_each_problem() -> None:
    images, labels = digits(1)
    settings = DpSgd(clip=2.0, noise_multiplier=0.5)
    net = network()
    problems = 40
    draws = [torch.Generator().manual_seed(i) for i in range(problems)]
    many = images.expand(problems, 1, 1, 8, 8), labels.expand(problems, 1)
    noisy = dp_sgd_gradients(net, *many, settings, draws)
    plain = dp_sgd_gradients(net, *many, DpSgd(clip=2.0, noise_multiplier=0.0), draws)
    noise = flat(noisy) - flat(plain)
    assert noise.std().item() == pytest.approx(1.0, rel=0.01)
    assert noise.corrcoef().fill_diagonal_(0).abs().max() < 0.1


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_step_is_that_of_opacus(noise: float) -> None:
    optimizers = pytest.importorskip("opacus.optimizers")
    grad_sample = pytest.importorskip("opacus.grad_sample")
    images, labels = digits(4, torch.float32)
    settings = DpSgd(clip=0.8, noise_multiplier=noise)
    net = network()
    draws = [torch.Generator().manual_seed(5)]
    ours = dp_sgd_gradients(net, images[None], labels[None], settings, draws)

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
    for name, weights in wrapped.named_parameters():
        theirs = weights.grad
        torch.testing.assert_close(
            ours[name.removeprefix("_module.")][0], theirs, rtol=1e-3, atol=1e-6
        )


@pytest.mark.parametrize("noise", [0.05, 0.5, 1.0, 5.0])
def test_epsilon_lies_between_the_exact_one_and_a_simple_bound(noise: float) -> None:
    """Of one step: the Gaussian mechanism's exact delta, and the textbook conversion."""
    pytest.importorskip("opacus")
    found = epsilon(DpSgd(noise_multiplier=noise, delta=1e-5))
    assert found is not None
    below, above = 0.5 / noise - found * noise, -0.5 / noise - found * noise
    exact = norm.cdf(below) - math.exp(found + norm.logcdf(above))
    assert exact <= 1e-5
    assert found <= 0.5 / noise**2 + math.sqrt(2 * math.log(1e5)) / noise + 1e-2


def test_without_noise_there_is_no_epsilon() -> None:
    assert epsilon(DpSgd(noise_multiplier=0.0)) == math.inf
