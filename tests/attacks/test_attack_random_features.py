"""Random features against scikit-learn, starts whose best share is known, and a bent client."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from easy_tasks import Mixer, Small, judge, make_task, pairs, smooth, task_on
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from cemlib.attacks.linear import linear
from cemlib.attacks.random_features import RIDGES, drawn, random_features
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models.decoder import CorrectedDecoder
from cemlib.models.split import SplitModel
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.ridge import best_share


class Grey(nn.Module):
    """A decoder that answers every release with grey."""

    def __init__(self, height: int = 8) -> None:
        super().__init__()
        self.height = height

    def forward(self, released: Tensor) -> Tensor:
        return torch.full((len(released), 1, self.height, 16), 0.5)


class Undoing(CorrectedDecoder):
    """A decoder whose estimate of a coding's input is the square of its output."""

    def __init__(self) -> None:
        super().__init__((8, 4, 4), (1, 8, 16), blocks=1, width=4, doublings=2)

    def undo_coding(self, released: Tensor) -> Tensor:
        return released.square()


class Bent(nn.Module):
    """Features (N, 1, 4, 4) that tell light images apart much better than dark ones."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.exp(4 * Small()(images))


def features_by_numpy(
    released: Tensor, projection: Tensor, shift: Tensor, own: Tensor
) -> np.ndarray:
    z, first = (part.flatten(1).double().numpy() for part in (released, own))
    u = (z - first.mean(0)) / first.std(0, ddof=1)
    return np.concatenate([u, np.maximum(u @ projection.double().numpy() + shift.numpy(), 0)], 1)


def in_the_fit(releases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[drawn.__module__], "RELEASES", releases)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_fit(1200, monkeypatch)


def test_it_is_ridge_regression_with_the_best_penalty(tmp_path: Path) -> None:
    task, _ = make_task(tmp_path, Mixer(), features=60)
    task = replace(task, start=Grey())
    drawing = drawn(task, Grey())
    parts = (task.own.features, task.held_out.features, task.released)
    known = drawing.projection, drawing.shift
    seen, held_out, attacked = (features_by_numpy(p, *known, task.own.features) for p in parts)
    images, truth = (p.targets().flatten(1).double().numpy() for p in (task.own, task.held_out))
    best = (np.inf, images)
    for ridge in RIDGES:
        alpha = len(seen) * ridge * seen.var(0).mean()
        fitted = Ridge(alpha=alpha, solver="svd").fit(seen, images)
        error = np.square(np.clip(fitted.predict(held_out), 0, 1) - truth).mean()
        best = min(best, (error, np.clip(fitted.predict(attacked), 0, 1)), key=lambda pair: pair[0])
    found = random_features(task)
    share = found.state["share"].item()
    alone = (found.reconstructions.flatten(1).double().numpy() - share * 0.5) / (1 - share)
    np.testing.assert_allclose(alone, best[1], atol=2e-4)
    assert share < 0.5


def test_it_reads_what_no_linear_map_can(tmp_path: Path) -> None:
    victim = Deployed(SplitModel(Bent(), nn.Identity(), (1, 4, 4)), GaussianNoise(0.0))
    parts = [pairs(victim, smooth(*part)) for part in ((600, 1), (50, 2), (100, 3))]
    task, targets = task_on(tmp_path, victim, parts, {"ridge": 1e-6, "features": 256}, judge())
    found = random_features(replace(task, start=Grey(16)))
    by_linear = (linear(task).reconstructions - targets).square().mean()
    assert (found.reconstructions - targets).square().mean() < 0.5 * by_linear


def test_a_decoder_that_knows_better_is_believed(tmp_path: Path) -> None:
    task, targets = make_task(tmp_path, Mixer(), std=0.5, features=16)
    told = torch.cat([task.held_out.targets(), targets])

    class Knowing(nn.Module):
        def forward(self, released: Tensor) -> Tensor:
            return told[: len(released)] if len(released) == len(task.held_out.images) else targets

    found = random_features(replace(task, start=Knowing()))
    assert found.state["share"] == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(found.reconstructions, targets.float())


def test_the_share_of_a_mix_by_search() -> None:
    draws = torch.Generator().manual_seed(0)
    truth, first, second = torch.rand(3, 50, generator=draws)
    errors = [
        ((s * first + (1 - s) * second) - truth).square().sum() for s in np.linspace(0, 1, 1001)
    ]
    assert best_share(first, second, truth) == pytest.approx(np.argmin(errors) / 1000, abs=1e-3)
    assert best_share(truth, second, truth) == 1
    assert best_share(first, truth, truth) == 0
    assert best_share(2 * first - truth, first, truth) == 0  # further away in the same direction
    assert best_share(first, first, truth) == 0


def test_noise_is_drawn_anew_for_every_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same noise twice, 600 releases of 128 + 500 features would be fitted too closely."""
    task, targets = make_task(tmp_path, Mixer(), std=0.3, features=500)
    errors = []
    for releases in (600, 2400, 9600):
        in_the_fit(releases, monkeypatch)
        found = random_features(replace(task, start=Grey()))
        errors.append((found.reconstructions - targets).square().mean().item())
    assert errors[0] > errors[1] > errors[2]


def test_a_coding_is_undone_by_the_decoder(tmp_path: Path) -> None:
    task, _ = make_task(tmp_path, Mixer(), features=5)
    found = drawn(task, Undoing())
    u = (task.released.flatten(1).square() - found.mean) / found.std
    torch.testing.assert_close(found(task.released)[:, :128], u)
    torch.testing.assert_close(found.mean, task.own.features.flatten(1).square().mean(0))


def test_constant_features_say_nothing(tmp_path: Path) -> None:
    class Half(Mixer):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images) * (torch.arange(8) < 4).float().view(8, 1, 1) + 0.3

    task, _ = make_task(tmp_path, Half(), features=32)
    answers = random_features(replace(task, start=Grey())).reconstructions
    assert answers.isfinite().all()
    assert answers.std() > 0.05


def test_features_that_are_not_finite_are_an_error(tmp_path: Path) -> None:
    task, _ = make_task(tmp_path, Mixer(), features=4)
    broken = replace(task.own, features=task.own.features * float("nan"))
    with pytest.raises(DivergedError, match="not finite"):
        random_features(replace(task, own=broken, start=Grey()))
