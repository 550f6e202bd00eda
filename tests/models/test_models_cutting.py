"""Any network in two: the halves do what the whole does, and what cannot be cut is said."""

import copy
import re

import pytest
import torch
from own_networks import (
    Around,
    Aside,
    Deciding,
    Dropping,
    Folding,
    Modes,
    Pair,
    Residual,
    Several,
    Shared,
    Wrapped,
)
from torch import Tensor, nn
from torch.nn import functional

from cemlib.models import SplitModel
from cemlib.models.cutting import possible_cuts
from cemlib.models.graphs import CutError

PLAIN = nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(True), nn.Flatten(), nn.Linear(784, 3)
)
TORCHVISION = [
    ("resnet18", "layer2"),
    ("resnet18", "layer2.0"),
    ("vgg11_bn", "features.4"),
    ("mobilenet_v3_small", "features.3"),
    ("densenet121", "features.denseblock1"),
    ("efficientnet_b0", "features.2"),
    ("shufflenet_v2_x0_5", "stage2"),
]


def images(side: int = 16, seed: int = 0) -> Tensor:
    return torch.rand(4, 3, side, side, generator=torch.Generator().manual_seed(seed))


def course(network: nn.Module, pictures: Tensor) -> list[Tensor]:
    """Logits in training and in evaluation, with gradients: chances, statistics and weights."""
    network.zero_grad()
    torch.manual_seed(1)
    found = [network.train()(pictures), network.train()(pictures)]
    found[0].square().sum().backward()
    found.append(network.eval()(pictures))
    return [*found, *(p.grad for p in network.parameters() if p.grad is not None)]


def check_same(network: nn.Module, cut: str, pictures: Tensor) -> SplitModel:
    """The halves of a network against a copy of the whole, bit for bit."""
    whole, before = copy.deepcopy(network), copy.deepcopy(pictures)
    model = SplitModel.from_module(network, cut=cut)
    halves = {**model.encoder.state_dict(), **model.head.state_dict()}
    assert halves.keys() == network.state_dict().keys()
    expected, found = course(whole, pictures), course(model, pictures.clone())
    assert len(found) == len(expected) == 3 + len(list(network.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(found[:3], expected[:3], strict=True))
    theirs = dict(whole.named_parameters())
    for name, weights in network.named_parameters():  # shared: trained through the halves
        assert torch.equal(weights.grad, theirs[name].grad), name
    assert torch.equal(pictures, before)
    return model


@pytest.mark.parametrize(("name", "cut"), TORCHVISION)
def test_torchvisions_networks_come_apart(name: str, cut: str) -> None:
    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    network = models.get_model(name, weights=None, num_classes=7)
    if name == "vgg11_bn":  # 120 million weights that say nothing more
        network.classifier = nn.Sequential(nn.Dropout(), nn.Linear(512 * 7 * 7, 7))
    model = check_same(network, cut, images(64))
    extraction = pytest.importorskip("torchvision.models.feature_extraction")
    reference = extraction.create_feature_extractor(network.eval(), {cut: "z"})
    with torch.no_grad():
        assert torch.equal(model.eval().encoder(images(64)), reference(images(64))["z"])


@pytest.mark.parametrize("cut", ["0", "1", "2", "3"])
def test_a_sequence_comes_apart_everywhere(cut: str) -> None:
    check_same(copy.deepcopy(PLAIN), cut, images())


@pytest.mark.parametrize("cut", ["stem", "norm"])
def test_a_functional_forward_comes_apart(cut: str) -> None:
    network = Residual()
    attributes = set(vars(network))
    check_same(network, cut, images())
    assert set(vars(network)) == attributes  # tracing leaves nothing behind
    assert possible_cuts(network) == ["stem", "norm", "last"]


def test_modes_of_single_layers_stay() -> None:
    network = Residual().eval()
    network.norm.train()
    model = SplitModel.from_module(network, cut="norm")
    assert not network.training
    assert network.norm.training
    assert model.encoder.norm is network.norm
    assert not model.encoder.training


def test_a_network_in_training_mode_stays_so() -> None:
    network = Residual().train()
    model = SplitModel.from_module(network, cut="stem")
    assert all(each.training for each in (network, model.encoder, model.head))
    found = []
    for forward in (network, model):
        torch.manual_seed(0)
        found.append(forward(images()))
    assert torch.equal(*found)


def test_saved_halves_can_be_loaded() -> None:
    one, other = (SplitModel.from_module(Residual(), "norm") for _ in range(2))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.eval()(images()), other.eval()(images()))


def test_a_copy_is_a_network_of_its_own() -> None:
    model = SplitModel.from_module(Residual(), "stem").eval()
    twin = copy.deepcopy(model)
    assert torch.equal(twin(images()), model(images()))
    with torch.no_grad():
        next(model.parameters()).zero_()
    assert not torch.equal(twin(images()), model(images()))


def test_the_head_leaves_the_features_as_they_are() -> None:
    model = SplitModel.from_module(copy.deepcopy(PLAIN), "1").eval()  # a ReLU in place comes next
    features = model.encoder(images())
    before = features.clone()
    model.head(features)
    assert torch.equal(features, before)
    assert before.min() < 0


def test_images_may_lie_in_memory_in_any_order() -> None:
    model = SplitModel.from_module(Residual(), "norm").eval()  # which uses `view`
    pictures = images().contiguous(memory_format=torch.channels_last)
    assert torch.equal(model(pictures), model(images()))


class Remembering(nn.Module):
    """It keeps what it saw last, and has an empty buffer and one with two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.seen = nn.Linear(4, 4), nn.Linear(4, 2), None
        self.register_buffer("mask", None)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.register_buffer("again", self.scale)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.first(x)
        kept = self.seen if self.mask is None else self.seen * self.mask
        return self.last(kept * self.again)


def test_a_network_is_as_it_was_after_the_cut() -> None:
    network, pictures = Remembering(), torch.rand(3, 4)
    model = SplitModel.from_module(network, cut="first")
    assert network.seen is None
    assert torch.equal(model(pictures), network(pictures))


def test_several_rows_for_one_image_are_refused() -> None:
    model = SplitModel.from_module(Folding(), cut="first")
    with pytest.raises(ValueError, match="the client returns 2 rows for one image"):
        model.measured((8,))


def test_parts_that_are_never_called_are_in_neither_half() -> None:
    model = SplitModel.from_module(Wrapped(), "model.0")
    assert sorted(model.encoder.state_dict()) == ["model.0.bias", "model.0.weight"]
    assert sorted(model.head.state_dict()) == ["model.2.bias", "model.2.weight"]


@pytest.mark.parametrize(
    ("network", "cut", "message"),
    [
        (
            Residual(),
            "stam",
            "no submodule 'stam'; did you mean 'stem'?; possible cuts: stem, norm",
        ),
        (Residual(), "body.0", "'body.0' is no bottleneck: relu of 'stem' goes around it into add"),
        (Residual(), "body", "the forward pass calls 'body' never"),
        (Around(), "first", "the input goes around it into mul"),
        (Deciding(), "first", "forward of Deciding cannot be traced ... SplitModel(encoder, head)"),
        (Shared(called=True), "first", "calls 'first' 2 times; it must do so once"),
        (Shared(called=True), "middle", "first.weight would be used on both sides"),
        (Shared(called=False), "middle", "first.weight would be used on both sides"),
        *(
            (Dropping(act), "first", f"ignores the result of {name} ")
            for name, act in (
                ("relu_", lambda x: x.relu_()),
                ("relu_", functional.relu_),
                ("clamp_", lambda x: torch.clamp_(x, 0, 1)),
                ("mul", lambda x: torch.mul(x, 3, out=x)),
                ("relu", lambda x: functional.relu(x, inplace=True).mean()),
            )
        ),
        (Modes(torch.no_grad), "first", "under torch.no_grad ... a submodule of its own"),
        (Modes(lambda: torch.autocast("cpu")), "first", "or torch.autocast, which a graph"),
        (Aside(), "first", "'first' does not depend on the images"),
        (Pair(), "first", "takes x, other; only one batch"),
        (Several(), "first", "the forward returns a tuple of values"),
        (Wrapped(), "model", "nothing comes after 'model' ... possible cuts: model.0, model.1"),
        (Wrapped(), "unused", "calls 'unused' never"),
    ],
)
def test_what_cannot_be_cut_is_said(network: nn.Module, cut: str, message: str) -> None:
    pattern = ".*".join(map(re.escape, message.split(" ... ")))
    with pytest.raises(CutError, match=pattern):
        SplitModel.from_module(network, cut)
