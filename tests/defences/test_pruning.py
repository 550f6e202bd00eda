"""Pruned clients against the full network with the removed channels silenced."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cemlib.defences.pruning import client_cost, kept_filters, prune
from cemlib.models import SplitModel, build

SHAPE: dict[str, Any] = {"num_classes": 5, "image_size": 32, "cut": 4}


def trained(name: str = "vgg11", sparse_coding: bool = False, cut: int = 4) -> SplitModel:
    """A network with biases and batch-norm statistics that are not those of the start."""
    torch.manual_seed(0)
    options = SHAPE | {"cut": cut, "sparse_coding": sparse_coding}
    model = build(name, **options).double()
    for layer in model.encoder.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for values in (layer.weight, layer.running_var):
                nn.init.uniform_(values, 0.5, 2)
            for values in (layer.bias, layer.running_mean):
                nn.init.normal_(values)
        elif isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.bias)
    return model.eval()


def layers(model: SplitModel, kind: type[nn.Module]) -> list[Any]:
    return [layer for layer in model.encoder.modules() if isinstance(layer, kind)]


def smallest(weight: Tensor, number: int) -> list[int]:
    """The filters that go, by sorting sums of plain numbers."""
    norms = [sum(abs(w) for w in row.flatten().tolist()) for row in weight]
    return sorted(range(len(norms)), key=norms.__getitem__)[:number]


def silence(model: SplitModel, removed: list[int]) -> None:
    """Zero the given number of smallest filters of every layer, and their normalisation."""
    with torch.no_grad():
        for convolution, norm, number in zip(
            layers(model, nn.Conv2d)[:-1], layers(model, nn.BatchNorm2d), removed, strict=True
        ):
            gone = smallest(convolution.weight, number)
            for values in (convolution.weight, convolution.bias, norm.weight, norm.bias):
                values[gone] = 0


@pytest.mark.parametrize("sparse_coding", [False, True])
@pytest.mark.parametrize(
    ("name", "cut", "ratio", "widths", "removed"),
    [
        ("vgg11", 4, 0.5, (32, 64), [32, 64]),
        ("vgg11", 4, 0.29, (46, 91), [18, 37]),
        ("vgg11", 6, 0.9, (7, 13, 26, 26), [57, 115, 230, 230]),
        ("small", 4, 0.99, (1, 1), [15, 31]),
        ("small", 4, 0.0, (16, 32), [0, 0]),
    ],
)
def test_a_pruned_client_equals_the_silenced_one(
    name: str,
    cut: int,
    ratio: float,
    widths: tuple[int, ...],
    removed: list[int],
    sparse_coding: bool,
) -> None:
    model = trained(name, sparse_coding, cut)
    full, images = copy.deepcopy(model), torch.rand(3, 3, 32, 32).double()
    untouched = full.encoder(images)
    assert prune(model, ratio) == widths
    silence(full, removed)
    assert torch.allclose(model.encoder(images), full.encoder(images), atol=1e-10)
    assert torch.allclose(model(images), full(images), atol=1e-10)
    assert torch.allclose(model.encoder(images), untouched, atol=1e-2) == (ratio == 0)


def test_build_takes_the_widths_and_the_weights() -> None:
    model = trained(sparse_coding=True)
    widths = prune(model, 0.3)
    again = build("vgg11", **SHAPE, sparse_coding=True, client_widths=widths)
    again.double().eval().load_state_dict(model.state_dict())
    images = torch.rand(2, 3, 32, 32).double()
    assert torch.equal(again(images), model(images))


def test_filters_with_the_largest_l1_norms_stay_in_order() -> None:
    weight = torch.zeros(5, 2, 1, 2)
    weight[:, 0, 0, 0] = torch.tensor([3.0, -1.0, -4.0, 2.0, 0.5])
    weight[4, 1, 0, 1] = -3.0  # 3.5 in all, over two input channels
    assert kept_filters(weight, 0.4).tolist() == [0, 2, 4]
    assert kept_filters(torch.ones(6, 2, 3, 3), 0.5).tolist() == [0, 1, 2]  # of equal ones


@pytest.mark.parametrize(("ratio", "left"), [(0.29, 71), (0.3, 70), (0.07, 93), (0.999, 1), (1, 1)])
def test_the_share_is_rounded_down_in_decimals(ratio: float, left: int) -> None:
    assert len(kept_filters(torch.randn(100, 1, 1, 1), ratio)) == left


@pytest.mark.parametrize("form", [torch.channels_last, torch.contiguous_format])
def test_mode_type_layout_and_frozen_weights_stay(form: torch.memory_format) -> None:
    model = trained().to(torch.bfloat16).to(memory_format=form).train()
    layers(model, nn.BatchNorm2d)[0].eval()
    layers(model, nn.Conv2d)[1].weight.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    fixed = [weights.requires_grad for weights in model.parameters()]
    random = torch.random.get_rng_state()
    prune(model, 0.5)
    assert [module.training for module in model.modules()] == modes
    assert [weights.requires_grad for weights in model.parameters()] == fixed
    assert {weights.dtype for weights in model.parameters()} == {torch.bfloat16}
    for convolution in layers(model, nn.Conv2d):
        assert convolution.weight.is_contiguous(memory_format=form)
    assert torch.equal(torch.random.get_rng_state(), random)


@pytest.mark.parametrize("ratio", [-0.1, 1.0, float("nan")])
def test_an_impossible_ratio_is_refused(ratio: float) -> None:
    model = trained("small")
    with pytest.raises(ValueError, match=r"ratio is .*; it must be at least 0 and below 1"):
        prune(model, ratio)


def test_clients_of_another_build_are_refused() -> None:
    with pytest.raises(ValueError, match=r"without shortcuts.* found BasicBlock"):
        prune(build("resnet20", **SHAPE), 0.5)
    mine = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Sigmoid())
    with pytest.raises(ValueError, match="found Conv2d, Sequential, Sigmoid"):
        prune(SplitModel(mine, nn.Flatten(), (8, 32, 32)), 0.5)


def test_the_cost_of_vgg11s_client_before_and_after_pruning() -> None:
    model = trained()
    full = 2 * 9 * (3 * 64 * 32 * 32 + 64 * 128 * 16 * 16 + 128 * 8 * 8 * 8)
    assert client_cost(model, (3, 32, 32)) == {"parameters": 85_256, "flops": full}
    prune(model, 0.5)
    half = 2 * 9 * (3 * 32 * 32 * 32 + 32 * 64 * 16 * 16 + 64 * 8 * 8 * 8)
    parameters = (3 * 32 * 9 + 32 + 64) + (32 * 64 * 9 + 64 + 128) + (64 * 8 * 9 + 8)
    assert client_cost(model, (3, 32, 32)) == {"parameters": parameters, "flops": half}


def test_counting_leaves_the_model_as_it_was() -> None:
    model = trained("small").train()
    layers(model, nn.BatchNorm2d)[0].eval()
    before = {name: values.clone() for name, values in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    client_cost(model, (3, 32, 32))
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(values, before[name]) for name, values in model.state_dict().items())
