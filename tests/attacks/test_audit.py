"""One line in a notebook: a network of one's own is attacked, or trained behind a defence."""

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from torch import Tensor, nn
from torch.utils.data import StackDataset, TensorDataset

import cemlib
from cemlib.attacks import ATTACKS
from cemlib.data import DataError
from cemlib.data.tensors import from_tensors
from cemlib.models import SplitModel

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images[:240] * 15).to(torch.uint8).unsqueeze(1)  # (240, 1, 8, 8)
LABELS = torch.tensor(DIGITS.target[:240])
GIVEN: dict[str, Any] = {"images": IMAGES, "labels": LABELS}
LINEAR: dict[str, Any] = {"linear": {}}
QUICK = {"epochs": 2, "batch_size": 32}
NOISY = {"noise_std": 0.5}


def network(client: nn.Module | None = None, width: int = 4, classes: int = 10) -> nn.Module:
    """A small network for digits with batch statistics and dropout, in training mode."""
    torch.manual_seed(0)
    net = nn.Sequential()
    net.add_module("client", client or nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4)))
    net.add_module("server", nn.Sequential(nn.Dropout(0.1), nn.Flatten(), nn.ReLU()))
    net.add_module("last", nn.Linear(width * 16, classes))
    return net


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


def trained(net: nn.Module) -> nn.Module:
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(IMAGES / 255), LABELS).backward()
        optimiser.step()
    return net


@pytest.fixture(scope="module")
def net() -> nn.Module:
    return trained(network())


@pytest.fixture(scope="module")
def audited(net: nn.Module) -> Any:
    return cemlib.audit(net, "client", **GIVEN, attacks=LINEAR)


def mse(found: Any, attack: str = "worst_case") -> float:
    rows = found.frame.set_index(["attack", "knowledge"])
    return float(rows["mse"][attack, "train_data"])


def test_the_linear_attack_is_ridge_regression_on_the_released_features(
    net: nn.Module, audited: Any
) -> None:
    data = from_tensors(IMAGES, LABELS)
    with torch.no_grad():
        client = copy.deepcopy(net).eval().get_submodule("client")
        x, x_test = (
            client(part.images / 255).flatten(1).numpy() for part in (data.train, data.test)
        )
    y, y_test = (part.images.flatten(1).numpy() / 255 for part in (data.train, data.test))
    ridge = Ridge(alpha=1e-3 * len(x) * x.astype(np.float64).var(0).mean()).fit(x, y)
    expected = np.square(ridge.predict(x_test).clip(0, 1) - y_test).mean()
    assert mse(audited, "linear") == pytest.approx(expected, rel=1e-4)
    assert mse(audited) == mse(audited, "linear")


def test_a_client_that_sends_the_image_hides_nothing() -> None:
    net = trained(network(nn.Identity()))
    found = cemlib.audit(net, "client", **GIVEN)
    attacks = ["decoder", "linear", "mean_image", "worst_case"]
    assert found.frame["attack"].tolist() == 2 * attacks
    assert found.frame["knowledge"].tolist() == 4 * ["train_data"] + 4 * ["public_data"]
    assert mse(found) < 1e-4
    worst = found.frame.set_index(["attack", "knowledge"]).loc["worst_case", "train_data"]
    assert worst["images"] == 60
    assert worst["identified"] == pytest.approx(found.accuracy)
    assert found.accuracy > 0.7
    data = from_tensors(IMAGES, LABELS)
    apart = data.test.images / 255 - (data.train.images / 255).mean(0)
    assert mse(found, "mean_image") == pytest.approx(apart.square().mean().item(), rel=1e-5)


def test_pictures_show_an_image_of_each_class_above_what_was_reconstructed(net: nn.Module) -> None:
    found = cemlib.audit(
        net,
        "client",
        images=IMAGES[:180],
        labels=LABELS[:180],
        test_images=IMAGES[180:],
        test_labels=LABELS[180:],
        attacks=LINEAR | {"mean_image": {}},
    )
    above, below = (tiles(row) for row in np.split(np.asarray(found.pictures()), 2))
    for label in range(10):
        own = IMAGES[180:][LABELS[180:] == label].squeeze(1).numpy()
        assert (own == above[label]).all((1, 2)).any()
    errors = np.square(above / 255.0 - below / 255.0).mean()
    assert errors == pytest.approx(mse(found, "linear"), rel=0.5)
    _, mean = np.split(np.asarray(found.pictures("mean_image")), 2)
    assert (tiles(mean) == tiles(mean)[0]).all()
    with pytest.raises(
        ValueError, match=r"no reconstructions by decoder with train_data; the attacks were linear"
    ):
        found.pictures("decoder")
    lost = replace(found.attacked[0], reconstructions=None, reason="epoch 1: loss is nan")
    with pytest.raises(
        ValueError, match=r"the attacks were linear with train_data \(failed: epoch 1"
    ):
        replace(found, attacked=[lost]).pictures("linear")


def test_images_may_be_attacked_whose_memory_order_a_judge_cannot_take() -> None:
    """The decoders' answers are channels_last, and `view` needs the usual order."""

    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(3 * 64, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(x.view(len(x), -1))

    judge, colour = Viewing(), IMAGES.expand(-1, 3, -1, -1)
    net = nn.Sequential()
    net.add_module("client", nn.Conv2d(3, 4, 3, 2, 1))
    net.add_module("server", nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    given = {"images": colour, "labels": LABELS, "attacks": {"residual": QUICK}}
    with torch.inference_mode():  # as around the rest of a user's evaluation
        found = cemlib.audit(net, "client", judge=judge, flip=True, **given)
    assert {each.reason for each in found.attacked} == {None}


def test_attacked_images_that_the_attacker_has_are_told(net: nn.Module) -> None:
    own = {"test_images": IMAGES[:60], "test_labels": LABELS[:60], "attacks": LINEAR}
    with pytest.warns(UserWarning, match="60 attacked images equal images") as told:
        cemlib.audit(net, "client", seed=np.int64(1), **GIVEN, **own)
    assert {each.filename for each in told} == {__file__}


def test_a_defended_network_is_measured_on_the_images_given() -> None:
    client = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4))
    net = nn.Sequential(client, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 10))
    once = {"epochs": 1, "milestones": []}
    defended = cemlib.defend(net, "0", **GIVEN, defence=NOISY, train=once)
    large = IMAGES.repeat_interleave(2, 2).repeat_interleave(2, 3)
    found = cemlib.audit(defended, images=large, labels=LABELS, attacks={"residual": QUICK})
    assert {each.reason for each in found.attacked} == {None}


def tiles(row: Any) -> Any:
    """The ten 8x8 images of a row: each pixel enlarged by 8, and 4 white pixels between them."""
    return row.reshape(68, 10, 68)[:64:8, :, :64:8].transpose(1, 0, 2)


def test_the_network_given_stays_as_it_is(net: nn.Module) -> None:
    mine = copy.deepcopy(net).train()
    mine.get_submodule("client").eval()
    weights, modes = copy.deepcopy(mine.state_dict()), [each.training for each in mine.modules()]
    cemlib.audit(mine, "client", **GIVEN, attacks=LINEAR)
    defended = cemlib.defend(mine, "client", **GIVEN, defence=NOISY, train=QUICK)
    assert modes == [each.training for each in mine.modules()]
    assert all(torch.equal(mine.state_dict()[name], each) for name, each in weights.items())
    assert all(each.grad is None for each in mine.parameters())
    before = copy.deepcopy(defended.deployed.model.state_dict())
    cemlib.audit(defended, **GIVEN, attacks=LINEAR)
    after = defended.deployed.model.state_dict()
    assert all(torch.equal(after[name], each) for name, each in before.items())


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (IMAGES / 255, LABELS.int()),
        (IMAGES.numpy(), LABELS.tolist()),
        (IMAGES.double().numpy() / 255, LABELS.numpy()),
        (IMAGES.flip(0).numpy()[::-1], LABELS.flip(0).numpy()[::-1]),  # strides below 0
        (TensorDataset(IMAGES / 255, LABELS), None),
        (StackDataset(IMAGES.float().numpy() / 255, LABELS.tolist()), None),
    ],
)
def test_images_may_come_as_they_are_at_hand(
    net: nn.Module, audited: Any, images: Any, labels: Any
) -> None:
    found = cemlib.audit(net, "client", images=images, labels=labels, attacks=LINEAR)
    pd.testing.assert_frame_equal(found.frame, audited.frame, check_exact=True)


def test_a_defence_starts_from_the_weights_given(net: nn.Module) -> None:
    """A learning rate of next to nothing leaves the network as it was."""
    still = {"epochs": 1, "lr": 1e-12, "weight_decay": 0.0}
    found = cemlib.defend(net, "client", **GIVEN, defence=NOISY, train=still)
    weights = dict(found.deployed.model.named_parameters())
    assert len(weights) == len(list(net.parameters()))
    for mine in net.parameters():
        near = (each for each in weights.values() if each.shape == mine.shape)
        assert any(torch.allclose(mine, each, atol=1e-6) for each in near)


def test_a_defended_network_is_attacked_behind_its_channel(net: nn.Module) -> None:
    defended = cemlib.defend(net, "client", **GIVEN, defence=NOISY, train=QUICK)
    found = cemlib.audit(defended, **GIVEN, attacks=LINEAR)
    model = defended.deployed.model
    same = cemlib.audit(model, **GIVEN, attacks=LINEAR, noise_std=0.5)
    clean = cemlib.audit(model, **GIVEN, attacks=LINEAR)
    pd.testing.assert_frame_equal(found.frame, same.frame, check_exact=True)
    assert mse(found) > 1.5 * mse(clean)
    # The images attacked are those that it was not trained on, and tested on with the same noise.
    assert found.accuracy == defended.scores["top1"]


def test_the_networks_own_normalisation_is_told(net: nn.Module) -> None:
    """The same network, once for images in [0, 1] and once for normalised ones."""
    inside = nn.Sequential()
    inside.add_module("scale", Scale())
    for name, part in net.named_children():
        inside.add_module(name, part)
    one = cemlib.audit(inside, "client", **GIVEN, attacks=LINEAR, judge=inside)
    split = SplitModel.from_module(net, "client", mean=[0.25], std=[0.5])
    other = cemlib.audit(split, **GIVEN, attacks=LINEAR, judge=inside)
    pd.testing.assert_frame_equal(one.frame, other.frame, rtol=1e-5)


class Scale(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - 0.25) / 0.5


def test_a_failed_attack_is_no_number(net: nn.Module) -> None:
    attacks = {"decoder": {"epochs": 1, "blocks": 1, "width": 4, "lr": 1e30}}
    found = cemlib.audit(net, "client", **GIVEN, attacks=attacks)
    assert math.isnan(mse(found))
    assert not found.frame["converged"].any()


def test_classes_may_be_absent_from_an_audit_but_not_from_a_training() -> None:
    many = network(classes=1000)
    labels = LABELS * 100
    found = cemlib.audit(many, "client", images=IMAGES, labels=labels, attacks=LINEAR)
    assert not found.frame["mse"].isna().any()
    with pytest.raises(ValueError, match="too few training images"):
        cemlib.defend(many, "client", images=IMAGES, labels=labels, defence={})
    with pytest.raises(ValueError, match="defence: model: has no effect on a network of your own"):
        cemlib.defend(many, "client", **GIVEN, defence={"model": {"bottleneck": 4}})


def test_too_few_images_are_an_error_before_the_first_attack(
    net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacked = list[Any]()
    monkeypatch.setitem(ATTACKS, "linear", attacked.append)
    few = {name: each[:10] for name, each in GIVEN.items()}
    with pytest.raises(DataError, match="leave the public_data attacker 0 to train on"):
        cemlib.audit(net, "client", **few, attacks=LINEAR)
    assert not attacked


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "labels: missing; give the class of every image"),
        (
            {"images": IMAGES.float()},
            r"images: floats must lie in \[0, 1\], found 0 to 240; divide",
        ),
        ({"images": IMAGES / 255 * math.nan}, "images: floats must lie"),
        ({"images": IMAGES.long()}, r"images must be uint8 \(N, 1 or 3, H, W\), found torch.int64"),
        ({"images": TensorDataset(IMAGES, LABELS)}, "labels: the Dataset images has its own"),
        ({"images": TensorDataset(IMAGES), "labels": None}, "images: the Dataset must give pairs"),
        ({"labels": LABELS[:9]}, r"240 images need int64 labels \(240,\), found .* \(9,\)"),
        ({"labels": LABELS / 2}, "labels: labels must be integers, found torch.float"),
        ({"labels": ["a"] * 240}, "labels: must be a tensor or an array of numbers"),
        (
            {"images": IMAGES[:3], "labels": LABELS[:3]},
            "has only . images to train on, but needs at least 2",
        ),
        ({"test_labels": LABELS}, "test_images: missing, but there are test_labels"),
        ({"model": network(classes=7)}, r"model: returns \(1, 7\) for one image; the data have 10"),
        ({"judge": network(classes=7)}, r"judge: returns \(1, 7\) for one image"),
        ({"test_images": IMAGES[..., :4], "test_labels": LABELS}, "test: images of shape"),
        (
            {"cut": None},
            "cut: missing; name the last submodule on the client; possible cuts: client",
        ),
        ({"cut": "clint"}, "did you mean 'client'"),
        ({"cut": 1}, "cut: 1 is not a name; name the last submodule on the client; possible cuts"),
        (
            {"judge": network(Pair())},
            "judge: returns no logits for images of shape .* .TypeError",
        ),
        ({"model": network(Pair())}, "cut: the client returns a tuple, not a tensor; cut"),
        (
            {"model": network().double()},
            "model: weights are float64 and images float32; give model",
        ),
        ({"judge": network().bfloat16()}, "judge: weights are bfloat16 .*; give judge.float"),
        ({"noise_std": -1.0}, "noise_std: Input should be greater than or equal to 0"),
        ({"attacks": {"linaer": {}}}, "did you mean 'linear'"),
        (
            {"model": SplitModel(nn.Identity(), network())},
            "cut: 'client', but the network given is",
        ),
    ],
)
def test_what_cannot_be_audited_is_named(
    net: nn.Module, changes: dict[str, Any], message: str
) -> None:
    given = {"model": net, "cut": "client", "attacks": LINEAR} | GIVEN
    with pytest.raises(ValueError, match=message):
        cemlib.audit(**(given | changes))
