"""The features compared, and the decoder trained on their distance."""

from pathlib import Path
from typing import Any

import pytest
import torch
from easy_tasks import OPTIONS, easy_task, first_decoder, judge, share_off
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import vgg16 as architecture

from cemlib.attacks.perceptual import activations, distance, feature_network, perceptual, vgg16
from cemlib.attacks.task import Task
from cemlib.config.attacks import Perceptual
from cemlib.models import build
from cemlib.numerics.seeds import generator
from cemlib.records.files import FileError

POOLS = (4, 9, 16, 23, 30)  # of VGG16's layers, counted from 0


def perceptual_task(place: Path, **given: Any) -> tuple[Task, Tensor]:
    return easy_task(place, Perceptual, **(OPTIONS | given))


def images(channels: int, side: int, count: int = 2) -> Tensor:
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(1))


def test_a_position_where_nothing_is_active_is_harmless() -> None:
    nothing = torch.zeros(1, 3, 2, 2, requires_grad=True)
    (slope,) = torch.autograd.grad(distance([nothing.relu()], [torch.ones(1, 3, 2, 2)]), nothing)
    assert torch.isfinite(slope).all()


def test_the_judges_features_layer_by_layer() -> None:
    model, x = judge(3), images(3, 16)
    found = activations(model, x)
    stack = nn.Sequential(*model.encoder[1], *model.encoder[2:], model.head[0], *model.head[1])
    x, expected = model.encoder[0](x), []
    for layer in stack:
        expected += [x.relu()] if isinstance(layer, nn.MaxPool2d) else []
        x = layer(x)
    assert [tuple(a.shape[1:]) for a in found] == [(16, 16, 16), (32, 8, 8), (64, 4, 4)]
    assert all(map(torch.equal, found, expected))
    assert not any(layer._forward_pre_hooks for layer in model.modules())


@pytest.mark.parametrize(
    ("name", "sides"),
    [("small", [32, 16, 8]), ("vgg11", [32, 16, 8, 4, 2]), ("resnet20", [32, 16, 8])],
)
def test_a_judge_of_every_kind_has_features(name: str, sides: list[int]) -> None:
    model = build(name, num_classes=3, image_size=32, cut=4).eval()
    found = activations(model, images(3, 32))
    assert [activation.shape[-1] for activation in found] == sides


def test_a_network_without_pools_is_refused() -> None:
    with pytest.raises(ValueError, match="no layer that lowers"):
        activations(nn.Conv2d(1, 1, 3), images(1, 8))


def test_the_judge_itself_is_left_alone(tmp_path: Path) -> None:
    task, _ = perceptual_task(tmp_path, epochs=1)
    before = {name: tensor.clone() for name, tensor in task.judge.state_dict().items()}
    perceptual(task)
    assert all(weights.requires_grad for weights in task.judge.parameters())
    assert all(weights.grad is None for weights in task.judge.parameters())
    assert all(torch.equal(before[n], tensor) for n, tensor in task.judge.state_dict().items())


def test_one_step_is_adams_on_both_terms(tmp_path: Path) -> None:
    """One epoch of one batch; the distance is written out from the judge's own layers."""
    task, _ = perceptual_task(tmp_path, std=0.05, epochs=1, batch_size=96, feature_weight=2.0)
    found = perceptual(task)
    model = first_decoder()
    order = torch.randperm(96, generator=generator(0, "attack_order", 1))
    noise = torch.randn((96, 1, 4, 4), generator=generator(0, "attack_noise", 1))
    answers = model(task.own.features[order] + 0.05 * noise)
    targets = task.own.images[order].float() / 255
    terms = []
    for a, b in zip(*(activations(task.judge, x) for x in (answers, targets)), strict=True):
        lengths = [(x.norm(dim=1) > 0).float() for x in (a, b)]  # 0 where nothing is active
        terms.append((lengths[0] + lengths[1] - 2 * F.cosine_similarity(a, b, dim=1)).mean())
    mse, apart = F.mse_loss(answers, targets), sum(terms) / len(terms)
    (mse + 2 * apart).backward()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-4)
    optimiser.step()
    assert share_off(found.state, model.named_parameters()) < 0.01
    row = found.history[0]
    assert row["train_mse"] == pytest.approx(mse.item(), rel=1e-5)
    assert row["train_distance"] == pytest.approx(apart.item(), rel=1e-4)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file as torchvision's, with random weights and a stub of the classifier's."""
    torch.manual_seed(0)
    with torch.device("meta"):
        names = architecture().features.state_dict()
    state = {f"features.{n}": torch.randn(w.shape) * 0.05 for n, w in names.items()}
    path = tmp_path_factory.mktemp("vgg") / "vgg16.pth"
    torch.save(state | {"classifier.0.bias": torch.zeros(3)}, path)
    return path


def test_every_pool_and_stride_is_compared() -> None:
    halving = [nn.AvgPool2d(2), nn.MaxPool2d(2), nn.Conv2d(1, 2, 3, stride=2, padding=1)]
    network = nn.Sequential(*halving, nn.Conv2d(2, 2, 1), nn.AdaptiveAvgPool2d(1))
    assert [each.shape[-1] for each in activations(network, images(1, 32))] == [32, 16, 8, 4]


@pytest.mark.parametrize(("side", "channels", "pools"), [(32, 3, 5), (16, 1, 4)])
def test_pretrained_features_are_torchvisions(
    weights: Path, side: int, channels: int, pools: int
) -> None:
    x = images(channels, side)
    found = activations(vgg16(weights, side), x)
    with torch.device("meta"):
        layers = architecture().features
    state = torch.load(weights, weights_only=True)
    own = {n.removeprefix("features."): w for n, w in state.items() if n.startswith("features")}
    layers.load_state_dict(own, assign=True)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = torch.stack([(x[:, c % channels] - mean[c]) / std[c] for c in range(3)], 1)
    assert len(found) == pools
    for pool, ours in zip(POOLS, found, strict=False):
        torch.testing.assert_close(ours, layers[:pool](x), rtol=1e-4, atol=1e-5)


def test_pretrained_features_take_the_place_of_the_judges(tmp_path: Path, weights: Path) -> None:
    task, _ = perceptual_task(tmp_path, pretrained=str(weights))
    found, expected = (
        activations(network, images(1, 16))
        for network in (feature_network(task), vgg16(weights, 16))
    )
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "No such file"),
        (b"no tensors at all", "must hold torchvision's VGG16 weights"),
        ([1, 2], "'list' object has no attribute 'items'"),
        ({"features.0.weight": torch.zeros(64, 3, 3, 3)}, "Missing key"),
        ({0: torch.zeros(2)}, "has no attribute 'startswith'"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, content: Any, fault: str) -> None:
    path = tmp_path / "vgg.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    task, _ = perceptual_task(tmp_path, pretrained=str(path))
    with pytest.raises(FileError, match=rf"(?s)vgg\.pth: pretrained: .*{fault}"):
        perceptual(task)
