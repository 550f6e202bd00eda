"""The networks against the numbers of their published descriptions."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.models import Decoder, SplitModel, build
from cemlib.models.layers import ConvStack, SparseCoding
from cemlib.models.resnet import BasicBlock

RESNET: dict[str, object] = {"name": "resnet20"}


def count(module: torch.nn.Module) -> int:
    return sum(weights.numel() for weights in module.parameters())


@pytest.mark.parametrize(("sparse_coding", "client"), [(False, 85_256), (True, 347_400)])
def test_vgg11_has_the_published_numbers_of_parameters(sparse_coding: bool, client: int) -> None:
    model = build("vgg11", num_classes=10, image_size=32, cut=4, sparse_coding=sparse_coding)
    assert count(model.encoder) == client
    assert count(model.head) == 9_689_738


def test_decoder_has_the_published_number_of_parameters() -> None:
    assert count(Decoder(8, (3, 32, 32))) == 711_539


def test_decoder_has_the_published_order_of_layers() -> None:
    """ResBlock 8-64, ReLU, 8 x [ResBlock 64-64, ReLU], 2 x [ConvTranspose, BN, ReLU], ResBlock."""
    block, doubling = ["ResBlock", "ReLU"], ["ConvTranspose2d", "BatchNorm2d", "ReLU"]
    decoder = Decoder(8, (3, 32, 32))
    layers = [type(layer).__name__ for layer in decoder.layers]
    assert layers == 9 * block + 2 * doubling
    assert type(decoder.last).__name__ == "ResBlock"


@pytest.mark.parametrize(
    ("name", "cut", "size", "channels", "side"),
    [
        *(("vgg11", 4, 32, 3, 8), ("vgg11", 4, 64, 3, 16)),
        *(("small", 4, 16, 1, 4), ("small", 4, 32, 3, 8)),
        # The stages of ResNet-20 end at cuts 4, 7 and 9.
        *(("resnet20", cut, 32, 3, 32) for cut in (1, 4)),
        *(("resnet20", cut, 32, 3, 16) for cut in (5, 7)),
        *(("resnet20", cut, 32, 3, 8) for cut in (8, 9)),
        *(("resnet20", 5, 64, 3, 32), ("resnet20", 8, 64, 3, 16), ("resnet20", 8, 12, 3, 3)),
    ],
)
def test_features_lie_in_the_unit_interval_and_have_their_shape(
    name: str, cut: int, size: int, channels: int, side: int
) -> None:
    mean, std = (0.4,) * channels, (0.2,) * channels
    model = build(name, num_classes=7, image_size=size, cut=cut, mean=mean, std=std)
    images = torch.rand(3, channels, size, size)
    features = model.encoder(images)
    assert features.shape == (3, *model.feature_shape) == (3, 8, side, side)
    assert 0 < features.min() < features.max() < 1
    assert model(images).shape == (3, 7)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_pool_before_its_relu_changes_no_bit(precision: torch.dtype) -> None:
    torch.manual_seed(0)
    ours = ConvStack((6, "M", 8, 8, "M"), channels=3)
    kinds = [type(layer).__name__ for layer in ours]
    assert kinds.index("MaxPool2d") < kinds.index("ReLU")
    layers = list(ours)
    usual = nn.Sequential(*layers[:2], layers[3], layers[2], *layers[4:9], layers[10], layers[9])
    x = torch.randn(16, 3, 16, 16, requires_grad=True)
    found = []
    for network in (ours, usual):
        with torch.autocast("cpu", precision, enabled=precision != torch.float32):
            answers = network(x)
        weights = [x, *ours.parameters()]
        found.append([answers, *torch.autograd.grad(answers.float().square().sum(), weights)])
    assert (found[0][0] == 0).any()
    assert all(map(torch.equal, *found))


def test_the_encoder_normalises_with_its_own_statistics() -> None:
    model = build("small", num_classes=2, image_size=16, cut=4, mean=(0.3,), std=(0.5,)).eval()
    images = torch.rand(2, 1, 16, 16)
    rest = model.encoder[1:]
    assert torch.equal(model.encoder(images), rest((images - 0.3) / 0.5))


def test_client_weights_are_xavier_uniform_with_zero_biases() -> None:
    encoder = build("vgg11", num_classes=10, image_size=32, cut=4).encoder
    convolutions = [m for m in encoder.modules() if isinstance(m, torch.nn.Conv2d)]
    for layer in convolutions:
        fan_in, fan_out = layer.in_channels * 9, layer.out_channels * 9
        bound = (6 / (fan_in + fan_out)) ** 0.5
        assert layer.weight.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
        assert not layer.bias.any()


def test_sparse_coding_starts_with_unit_rows() -> None:
    rows = SparseCoding(16).weight.norm(dim=1)
    assert torch.allclose(rows, torch.ones(16), atol=1e-6)


def test_sparse_coding_is_a_soft_threshold_between_two_products() -> None:
    layer, features = SparseCoding(18, threshold=0.1).double(), torch.randn(5, 2, 3, 3).double()
    a = features.flatten(1) @ layer.weight.T
    codes = a.sign() * F.relu(a.abs() - 0.1)
    assert 0 < (codes == 0).sum() < codes.numel()
    expected = (codes @ layer.weight).view_as(features)
    assert torch.allclose(layer(features), expected, atol=1e-12)


@pytest.mark.parametrize(("name", "units"), [("small", [1024]), ("vgg11", [512, 512])])
@pytest.mark.parametrize(
    ("given", "share"), [({}, 0.5), ({"dropout": 0.2}, 0.2), ({"dropout": 0.0}, 0.0)]
)
def test_the_head_drops_its_share_of_hidden_units(
    name: str, units: list[int], given: dict[str, float], share: float
) -> None:
    """Counted in what enters the linear layers in training; in use nothing is dropped."""
    model, dropped = build(name, num_classes=3, image_size=32, cut=4, **given), list[Tensor]()
    for layer in model.head.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.register_forward_hook(lambda _, given, out: dropped.append(given[0] * (out == 0)))
            layer.register_forward_pre_hook(lambda _, given: (torch.ones_like(given[0]),))
    model.head(torch.rand(200, *model.feature_shape))
    assert [tuple(one.shape) for one in dropped] == [(200, size) for size in units]
    assert [one.mean().item() for one in dropped] == pytest.approx([share] * len(units), abs=0.01)
    dropped.clear()
    model.eval().head(torch.rand(20, *model.feature_shape))
    assert not any(one.any() for one in dropped)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "vgg"}, "unknown model 'vgg'"),
        ({"cut": 0}, "cut: must lie between 1 and 12, found 0"),
        ({"image_size": 48}, "multiple of 32, found 48"),
        ({"client_widths": (64,)}, r"2 convolutions .* at most 64, 128 channels, found \[64\]"),
        ({"client_widths": (64, 129)}, r"at most 64, 128 channels, found \[64, 129\]"),
        ({"client_widths": (0, 128)}, r"at least 1 .* found \[0, 128\]"),
        (RESNET | {"client_widths": (16,)}, "client_widths: the shortcuts of resnet20"),
        (RESNET | {"dropout": 0.2}, r"^dropout: resnet20 has none, .* 0\.5, found 0\.2"),
    ],
)
def test_an_impossible_network_is_refused(arguments: dict[str, object], message: str) -> None:
    valid = {"name": "vgg11", "num_classes": 10, "image_size": 32, "cut": 4}
    with pytest.raises(ValueError, match=message):
        build(**(valid | arguments))


def test_the_client_keeps_the_names_by_which_weights_are_saved() -> None:
    client = build("vgg11", num_classes=10, image_size=32, cut=4).encoder
    owners = {name.rpartition(".")[0] for name in client.state_dict()}
    layers = {name: type(client.get_submodule(name)).__name__ for name in owners}
    first = {"0": "Normalise", "1.0": "Conv2d", "1.1": "BatchNorm2d"}
    assert layers == first | {"1.4": "Conv2d", "1.5": "BatchNorm2d", "2": "Conv2d"}


def test_widths_of_client_and_server_and_the_bottleneck_change_alone() -> None:
    given = {"client_width": 0.5, "server_width": 2.0, "bottleneck": 3}
    model = build("small", num_classes=4, image_size=16, cut=4, **given)
    halves = (
        [w.shape for w in part.parameters() if w.ndim > 1] for part in (model.encoder, model.head)
    )
    assert [[tuple(shape[:2]) for shape in half] for half in halves] == [
        [(8, 3), (16, 8), (3, 16)],
        [(64, 3), (128, 64), (128, 128 * 2 * 2), (4, 128)],
    ]
    assert (
        model.encoder(torch.rand(2, 3, 16, 16)).shape == (2, *model.feature_shape) == (2, 3, 4, 4)
    )


@pytest.mark.parametrize(
    ("name", "drawn"),
    [("small", (-0.0095804985, 0.00093835744)), ("vgg11", (0.0464237705, -0.0090168277))],
)
def test_a_seed_gives_the_weights_that_published_results_began_with(
    name: str, drawn: tuple[float, float]
) -> None:
    torch.manual_seed(0)
    first, *_, last = build(name, num_classes=10, image_size=32, cut=4).head.parameters()
    assert (first.flatten()[0].item(), last.flatten()[0].item()) == pytest.approx(drawn, rel=1e-6)


def test_the_networks_own_widths_give_the_same_weights() -> None:
    states = []
    for widths in (None, (16, 32)):
        torch.manual_seed(3)
        model = build("small", num_classes=4, image_size=16, cut=4, client_widths=widths)
        states.append(model.state_dict())
    torch.testing.assert_close(*states, rtol=0, atol=0)


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
    assert count(resnet20(cut)) == whole + bottleneck + back


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
