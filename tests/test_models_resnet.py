"""ResNet-20 against hand-computed sizes, and its shortcut against a loop."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.models import SplitModel, build
from cemlib.models.resnet import BasicBlock


def resnet20(cut: int) -> SplitModel:
    return build("resnet20", num_classes=10, image_size=32, cut=cut)


@pytest.mark.parametrize(("cut", "width"), [(1, 16), (4, 16), (5, 32), (7, 32), (8, 64), (9, 64)])
def test_the_parameters_are_the_papers_and_those_of_the_cut(cut: int, width: int) -> None:
    stem = 3 * 16 * 9 + 2 * 16
    first = 6 * (16 * 16 * 9 + 2 * 16)
    second = (16 * 32 * 9 + 2 * 32) + 5 * (32 * 32 * 9 + 2 * 32)
    third = (32 * 64 * 9 + 2 * 64) + 5 * (64 * 64 * 9 + 2 * 64)
    whole = stem + first + second + third + (64 * 10 + 10)
    assert whole == 269_722  # the 0.27 M of the paper's table 6
    bottleneck, back = width * 8 * 9 + 8, 8 * width * 9 + width
    count = sum(weights.numel() for weights in resnet20(cut).parameters())
    assert count == whole + bottleneck + back


def option_a(x: Tensor, out_channels: int, stride: int) -> Tensor:
    """The paper's shortcut, pixel by pixel."""
    batch, channels, height, width = x.shape
    out = torch.zeros(batch, out_channels, height // stride, width // stride)
    for row in range(height // stride):
        for column in range(width // stride):
            out[:, :channels, row, column] = x[:, :, stride * row, stride * column]
    return out


@pytest.mark.parametrize(("channels", "stride"), [((4, 4), 1), ((4, 8), 2)])
def test_a_block_without_branch_is_its_shortcut(channels: tuple[int, int], stride: int) -> None:
    block = BasicBlock(*channels, stride)
    nn.init.zeros_(list(block.body.parameters())[-2])
    x = torch.randn(2, channels[0], 6, 6)
    expected = option_a(x, channels[1], stride).clamp(min=0)
    assert torch.equal(block(x), expected)


def test_a_block_adds_its_branch_before_the_last_relu() -> None:
    block, x = BasicBlock(4, 8, 2).eval(), torch.randn(2, 4, 6, 6)
    first, second = (weights for weights in block.parameters() if weights.ndim == 4)
    scale = (1 + 1e-5) ** -0.5  # batch normalisation at its start, in eval mode
    hidden = (F.conv2d(x, first, stride=2, padding=1) * scale).clamp(min=0)
    branch = F.conv2d(hidden, second, padding=1) * scale
    expected = (branch + option_a(x, 8, 2)).clamp(min=0)
    assert torch.allclose(block(x), expected, atol=1e-6)


def test_the_server_averages_over_positions() -> None:
    model = resnet20(9).eval()
    features, head = torch.rand(2, 8, 8, 8), list(model.head.children())
    weight, bias = list(model.head.parameters())[-2:]
    maps = nn.Sequential(*head[:2])(features)
    expected = F.linear(maps.mean((2, 3)), weight, bias)
    assert torch.allclose(model.head(features), expected, atol=1e-5)
