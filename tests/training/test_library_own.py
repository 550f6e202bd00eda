"""The user's own networks and surrogates, through every surrogate and every attack."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from result_files import timeless
from tape import TapeReplay
from test_library_jobs import ATTACKS
from tiny_study import RAW, blob_data
from torch import Tensor, nn

import cemlib.training.step
from cemlib.config import ConfigError, Study, parse
from cemlib.config.study import JUDGE
from cemlib.evaluation.attack import Attacked, attack
from cemlib.models import SplitModel
from cemlib.numerics.divergence import DivergedError
from cemlib.surrogates import SURROGATES, build
from cemlib.training.fit import fit
from cemlib.training.own import OwnSurrogate

Network = Callable[[], SplitModel]


class Spread(nn.Module):
    """A surrogate of one's own: the variance of the features over that of the noise."""

    def __init__(self, dim: int, num_classes: int, noise_std: float) -> None:
        super().__init__()
        assert num_classes == 3
        self.noise_std, self.scale = noise_std, nn.Parameter(torch.ones(dim))

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        assert z.shape[1:] == self.scale.shape
        assert y.shape == z.shape[:1]
        return ((z * self.scale).var(0).mean() / self.noise_std**2).log1p()


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


def test_a_surrogate_of_ones_own_is_trained_against() -> None:
    study, data = tiny(defences={"noise": {"noise_std": 0.1}}), blob_data()
    spreads, histories = [], []
    for surrogate in (None, OwnSurrogate(Spread, weight=100.0)):
        found = fit(study, "noise", data, own("first"), surrogate=surrogate)
        histories.append(found.history)
        spreads.append(found.deployed.features(data.test.images).flatten(1).var(0).mean().item())
    assert spreads[1] < 0.5 * spreads[0]
    assert histories[1][0]["surrogate/classes"] == 3
    assert histories[1][0]["surrogate"] > 0


def test_a_surrogate_of_the_package_can_be_ones_own_too() -> None:
    study, data = tiny(7), blob_data()
    one = fit(study, "gated", data, own("first"))
    gated = OwnSurrogate(partial(build, "gated"), weight=16.0)
    other = fit(study, "noise", data, own("first"), surrogate=gated)
    assert timeless(one.history) == timeless(other.history)


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
    found = attack(study, victim, judge, data)
    assert {each.reason for each in found} == {None}
    assert len(found) == 2 * len(ATTACKS)
    for each in found:
        check_plausible(each)


def check_plausible(each: Attacked) -> None:
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


def test_pruning_asks_for_a_stack_of_convolutions_before_it_trains() -> None:
    study = tiny(defences={"pruned": {"pruning": {"epoch": 1}}})
    with pytest.raises(ConfigError, match="model: pruning: the client must be a stack"):
        fit(study, "pruned", blob_data(), own("first"))


def test_a_training_that_diverges_says_so() -> None:
    with pytest.raises(DivergedError, match="epoch 1, batch"):
        fit(tiny(1, 1e30), "noise", blob_data(), own("first"))


def test_a_module_in_python_is_never_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may wait for the device, as this one does for the classes of a batch."""

    class ByClass(Spread):
        def forward(self, z: Tensor, y: Tensor) -> Tensor:
            return sum(super(ByClass, self).forward(z[y == c], y[y == c]) for c in y.unique())

    monkeypatch.setattr(cemlib.training.step, "Replay", TapeReplay)
    before = TapeReplay.count
    fit(tiny(2), "noise", blob_data(), own("first"), surrogate=OwnSurrogate(ByClass))
    assert TapeReplay.count == before
    fit(tiny(2), "noise", blob_data(), own("first"))
    assert TapeReplay.count > before


def test_a_penalty_must_be_a_scalar_of_the_features() -> None:
    class Constant(Spread):
        def forward(self, z: Tensor, y: Tensor) -> Tensor:
            return z.detach().mean() * y.sum()

    with pytest.raises(ValueError, match="Constant: must return a scalar tensor attached to z"):
        fit(tiny(), "noise", blob_data(), own("first"), surrogate=OwnSurrogate(Constant))
