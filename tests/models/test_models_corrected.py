"""The decoder beside a linear reconstruction: its start, its formula and its arithmetic."""

import pytest
import torch
from torch import Tensor, nn

from cemlib.models.decoder import CorrectedDecoder, LinearEstimate

FEATURES, IMAGES = (2, 3, 3), (3, 10, 12)
DIM, PIXELS = 18, 360


def estimate() -> LinearEstimate:
    """Any linear estimates; answers of them leave [0, 1] on both sides."""
    draws = torch.Generator().manual_seed(0)
    weights = torch.randn(DIM, PIXELS, generator=draws) / 4
    mean, intercept = torch.rand(DIM, generator=draws), torch.rand(PIXELS, generator=draws)
    return LinearEstimate(weights, mean, intercept, torch.randn(DIM, DIM, generator=draws) / 4)


def decoder(width: int = 5) -> CorrectedDecoder:
    torch.manual_seed(0)
    model = CorrectedDecoder(FEATURES, IMAGES, blocks=1, width=width, doublings=2)
    model.start_at(estimate())
    return model


def releases(count: int = 7) -> Tensor:
    return torch.randn(count, *FEATURES, generator=torch.Generator().manual_seed(1))


def linear(released: Tensor) -> Tensor:
    """The linear reconstruction, pixel by pixel in float64."""
    given = estimate()
    answers = torch.zeros(len(released), PIXELS, dtype=torch.float64)
    for row, z in enumerate(released.double().flatten(1)):
        for pixel, weights in enumerate(given.weights.double().T):
            answers[row, pixel] = given.intercept[pixel] + weights @ (z - given.mean)
    return answers.view(-1, *IMAGES)


def disturbed(model: nn.Module) -> None:
    """Give every parameter and every running mean another value, as training would."""
    draws = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor += 0.1 * torch.randn(tensor.shape, generator=draws)
        for name, tensor in model.named_buffers():
            if "running_mean" in name:
                tensor += torch.randn(tensor.shape, generator=draws)


@pytest.mark.parametrize("width", [5, 3])  # 3: the last block changes no channels
def test_an_untrained_one_is_the_linear_reconstruction(width: int) -> None:
    model, expected = decoder(width), linear(releases())
    assert expected.min() < 0
    assert expected.max() > 1
    for training in (True, False):
        answers = model.train(training)(releases()).double()
        torch.testing.assert_close(answers, expected.clamp(0.001, 0.999), atol=1e-5, rtol=0)


@pytest.mark.parametrize("share", [1.0, 0.25, 0.0])
def test_two_answers_from_filtered_features_and_the_line_are_mixed(share: float) -> None:
    model = decoder().eval()
    disturbed(model)
    nn.init.constant_(model.share, share)
    given, released = estimate(), releases()
    filtered = torch.stack([given.filter @ (z - given.mean) for z in released.flatten(1)])
    line = linear(released).clamp(0.001, 0.999)
    odds = line / (1 - line)
    maps = model.network.layers((filtered + given.mean).view_as(released))[..., :10, :12]
    out = model.network.last(torch.cat([maps, odds.log().float() / 4], 1)).double()
    assert out.abs().amax((0, 2, 3)).min() > 0.1
    corrected, own = odds * (4 * out[:, :3]).exp(), (4 * out[:, 3:]).exp()
    expected = share * corrected / (1 + corrected) + (1 - share) * own / (1 + own)
    torch.testing.assert_close(model(released).double(), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("width", [5, 3])
def test_a_network_that_starts_at_zero_learns(width: int) -> None:
    """The last convolution has a slope at once, and all before it have one a step later."""
    model = decoder(width).train()
    last = list(model.network.last.body)[-1]
    for _ in range(2):
        model.zero_grad()
        torch.cat(model.answers(releases())).square().mean().backward()
        assert last.weight.grad.abs().max() > 1e-4
        with torch.no_grad():
            for weights in filter(lambda each: each.requires_grad, model.parameters()):
                weights -= 0.1 * weights.grad
    for name, weights in model.named_parameters():
        if weights.ndim > 1:  # a bias before batch normalisation has none
            assert weights.grad.abs().max() > 1e-7, name


def test_the_linear_part_is_no_parameter() -> None:
    model = decoder()
    assert all(name.startswith("network.") for name, _ in model.named_parameters())
    assert {"weights", "mean", "intercept", "filter", "share"} <= model.state_dict().keys()


def test_half_precision_leaves_the_linear_part_alone() -> None:
    model, seen = decoder().eval(), list[Tensor]()
    model.network.register_forward_pre_hook(lambda _, given: seen.append(given[0].clone()))
    answers = []
    for enabled in (False, True):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            answers.append(model(releases()))
    assert answers[1].dtype == torch.float32
    assert torch.equal(*answers)
    assert torch.equal(*seen)
    disturbed(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        lower = model(releases())
    assert lower.dtype == torch.float32
    assert not torch.equal(lower, model(releases()))  # the network itself is in half precision
    torch.testing.assert_close(lower, model(releases()), atol=0.1, rtol=0)


def test_where_a_linear_reconstruction_is_too_large_the_mean_image_is_corrected() -> None:
    shape, image = (8, 32, 32), (3, 128, 128)  # 2**28.6 weights
    model = CorrectedDecoder(shape, image, 1, 4, 2).eval()
    mean = torch.rand(3 * 128 * 128)
    zeros, none = torch.zeros(8192), torch.zeros(0, 0)
    model.start_at(LinearEstimate(torch.zeros(0, len(mean)), zeros, mean, none))
    with torch.no_grad():
        answers = model(torch.rand(2, *shape))
    expected = mean.clamp(1e-3, 1 - 1e-3).view(1, *image).expand(2, -1, -1, -1)
    torch.testing.assert_close(answers, expected, atol=1e-6, rtol=0)
