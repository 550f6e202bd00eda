"""The user's own networks, through every surrogate and every attack."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_library_jobs import ATTACKS
from tiny_study import RAW, blob_data
from torch import Tensor, nn

from cemlib.config import ConfigError, Study, parse
from cemlib.config.study import JUDGE
from cemlib.evaluation.attack import attack
from cemlib.models import SplitModel
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.sums import Sums
from cemlib.surrogates import SURROGATES
from cemlib.training.fit import fit

Network = Callable[[], SplitModel]


class OwnNetwork(nn.Module):
    """A plain network of the user's, for images of 16x16."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2, padding=1), nn.ReLU(inplace=True))
        self.second = nn.Conv2d(6, 4, 3, stride=2, padding=1)
        self.last = nn.Linear(4 * 4 * 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu_(self.second(self.first(x)))
        return self.last(x.view(x.size(0), -1))


def own(cut: str, **options: Any) -> Network:
    return lambda: SplitModel.from_module(OwnNetwork(), cut, **options)


def halves() -> SplitModel:
    """Vectors between two halves given by hand."""
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(256, 12), nn.Sigmoid())
    return SplitModel(encoder, nn.Linear(12, 3))


def tiny(epochs: int = 2, lr: float = 0.05, **sections: Any) -> Study:
    defences = {n: d for n, d in RAW["defences"].items() if "pruning" not in d}
    defences["sparse"] = {"sparse_coding": True}
    train = {"epochs": epochs, "batch_size": 32, "lr": lr}
    return parse(RAW | {"train": train, "defences": defences} | sections)


@pytest.mark.parametrize("name", sorted(SURROGATES))
def test_every_surrogate_trains_on_ones_own_network(name: str) -> None:
    """Features that are maps for those that keep clusters, and vectors for the others."""

    def maps() -> SplitModel:
        return own("first", image_shape=(1, 16, 16))().narrowed(8)

    network = maps if SURROGATES[name].refit else halves
    epochs = SURROGATES[name].start_epoch + 1
    found = fit(tiny(epochs), name, blob_data(), network)
    assert found.history[-1]["surrogate/steps"] == 3
    assert math.isfinite(found.scores["test_loss"])


@pytest.mark.parametrize("network", [own("second"), halves])
def test_every_attack_works_on_ones_own_network(network: Network) -> None:
    study, data = tiny(attacks=ATTACKS), blob_data()
    victim, judge = fit(study, "by_topk", data, network), fit(study, JUDGE, data, own("first"))
    judge.deployed.model.train()  # as a user's code may leave it; it is used in evaluation mode
    before = copy.deepcopy(judge.deployed.model.state_dict())
    found = attack(study, victim, judge, data)
    after = judge.deployed.model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert {each.reason for each in found} == {None}
    assert len(found) == 2 * len(ATTACKS)
    for each in found:
        assert each.reconstructions.shape == each.originals.shape
        mse = (each.reconstructions - each.originals).square().mean().item()
        assert each.scores["mse"] == pytest.approx(mse, rel=1e-5)


def test_a_pretrained_network_would_be_trained_on() -> None:
    """The halves share the module's weights: training moves them."""
    study, data, module = tiny(), blob_data(), OwnNetwork()
    before = module.last.weight.clone()
    fit(study, "noise", data, lambda: SplitModel.from_module(module, "first"))
    assert not torch.equal(module.last.weight, before)


@pytest.mark.parametrize(
    ("defence", "network", "message"),
    [
        ("gatde", own("first"), "no defence 'gatde' in this study"),
        ("sparse", own("first"), "model: the defence asks for sparse_coding; build the network"),
        ("arl", own("last"), "model: cut: nothing comes"),
        (
            "noise",
            lambda: SplitModel(nn.Flatten(), nn.Linear(256, 2)),
            r"returns \(1, 2\) for one image; the data have 3 classes",
        ),
    ],
)
def test_what_does_not_fit_is_refused(defence: str, network: Network, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fit(tiny(), defence, blob_data(), network)


class Holding(nn.Module):
    """A frozen parameter beside layers that train."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.norm, self.inner = nn.BatchNorm2d(1), inner
        self.place = nn.Parameter(torch.zeros(1, 1, 1), requires_grad=False)
        self.modes: set[bool] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.modes.add(self.training)
        return self.inner(self.norm(x) + self.place)


def test_frozen_layers_keep_their_statistics() -> None:
    def network() -> SplitModel:
        model = own("first", image_shape=(1, 16, 16))().narrowed(8)
        frozen = nn.Sequential(nn.BatchNorm2d(1).requires_grad_(False), Holding(model.encoder))
        return SplitModel(frozen, model.head)

    encoder = fit(tiny(), "noise", blob_data(), network).deployed.model.encoder
    assert encoder[0].running_mean.tolist() == [0.0]
    assert encoder[1].norm.running_mean.tolist() != [0.0]
    assert encoder[1].modes == {True, False}


def test_what_a_surrogate_logs_has_the_same_names_in_every_call() -> None:
    sums = Sums()
    sums.add({"spread": torch.tensor(10.0)})
    with pytest.raises(ValueError, match="logged other, but before spread"):
        sums.add({"other": torch.tensor(2.0)})


def test_pruning_asks_for_a_stack_of_convolutions_before_it_trains() -> None:
    study = tiny(defences={"pruned": {"pruning": {"epoch": 1}}})
    with pytest.raises(ConfigError, match="model: pruning: the client must be a stack"):
        fit(study, "pruned", blob_data(), own("first"))


def with_frozen(part: str) -> SplitModel:
    model = own("first")()
    model.get_submodule(part).requires_grad_(False)
    return model


@pytest.mark.parametrize(
    ("defence", "part", "named"), [("noise", "", "network"), ("arl", "encoder", "client")]
)
def test_frozen_weights_are_refused_where_a_defence_would_have_no_effect(
    defence: str, part: str, named: str
) -> None:
    with pytest.raises(ConfigError, match=f"model: the {named} has no weight to train"):
        fit(tiny(), defence, blob_data(), lambda: with_frozen(part))


def test_a_server_can_be_trained_behind_noise_and_a_frozen_client() -> None:
    trained = fit(tiny(1), "noise", blob_data(), lambda: with_frozen("encoder"))
    assert len(trained.history) == 1


def test_a_training_that_diverges_says_so() -> None:
    with pytest.raises(DivergedError, match="epoch 1, batch"):
        fit(tiny(1, 1e30), "noise", blob_data(), own("first"))
