"""Random features against scikit-learn, starts whose best share is known, and a bent client."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from easy_tasks import Constant, Mixer, Small, judge, make_task, pairs, same, smooth, task_on
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from cemlib.attacks.linear import linear
from cemlib.attacks.random_features import drawn, random_features
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models.decoder import CorrectedDecoder
from cemlib.models.split import SplitModel
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.ridge import RIDGES, best_share
from cemlib.numerics.seeds import generator


class Grey(nn.Module):
    """A decoder that answers every release with grey."""

    def __init__(self, height: int = 8) -> None:
        super().__init__()
        self.height = height

    def forward(self, released: Tensor) -> Tensor:
        return torch.full((len(released), 1, self.height, 16), 0.5)


class Told(nn.Module):
    """A decoder that is told its answers to the releases of two sets of images."""

    def __init__(self, *answers: Tensor) -> None:
        super().__init__()
        self.answers = {len(each): each for each in answers}

    def forward(self, released: Tensor) -> Tensor:
        return self.answers[len(released)]


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


def by_numpy(released: Tensor, first: Tensor, projection: Tensor, shift: Tensor) -> np.ndarray:
    z, known, weights = (part.flatten(1).double().numpy() for part in (released, first, projection))
    u = (z - known.mean(0)) / known.std(0, ddof=1)
    return np.concatenate([u, np.maximum(u @ weights + shift.numpy(), 0)], 1)


def in_the_fit(releases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[drawn.__module__], "RELEASES", releases)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_fit(1200, monkeypatch)


def test_it_is_ridge_regression_with_the_best_penalty(tmp_path: Path) -> None:
    """On two releases of each image, which are means of two, and judged by a held-out release."""
    task, targets = make_task(tmp_path, Mixer(), std=0.3, features=60, queries=2)
    decoded = [0.25 + 0.5 * images.float() for images in (targets, task.held_out.targets())]
    found = random_features(replace(task, start=Told(*decoded)))
    features = drawn(task, Grey())
    twice = torch.arange(1200) % 600
    first, seen, held_out = (
        task.release(clean, generator(0, name, step))
        for clean, name, step in (
            (task.own.features, "attack_noise", 0),
            (task.own.features[twice], "attack_noise", 1),
            (task.held_out.features, "attack_ridge_noise", 0),
        )
    )
    known = first, features.projection, features.shift
    x, x_held_out, x_found = (by_numpy(part, *known) for part in (seen, held_out, task.released))
    y = task.own.targets(twice).flatten(1).double().numpy()
    truth = task.held_out.targets().flatten(1).double().numpy()
    fits = [Ridge(len(x) * r * x.var(0).mean(), solver="cholesky").fit(x, y) for r in RIDGES]
    errors = [np.square(np.clip(fit.predict(x_held_out), 0, 1) - truth).mean() for fit in fits]
    best = int(np.argmin(errors))
    assert 0 < best < len(RIDGES) - 1
    answers = [np.clip(fits[best].predict(part), 0, 1) for part in (x_found, x_held_out)]
    theirs = [each.flatten(1).double().numpy() for each in decoded]
    apart = theirs[1] - answers[1]
    share = (apart * (truth - answers[1])).sum() / np.square(apart).sum()
    assert 0 < share < 1
    expected = share * theirs[0] + (1 - share) * answers[0]
    np.testing.assert_allclose(found.reconstructions.flatten(1).numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(found.state["intercept"].numpy(), fits[best].intercept_, atol=1e-5)
    assert found.state["share"] == pytest.approx(share, abs=1e-5)


def test_two_releases_of_each_image_are_fitted_to_at_least(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, _ = make_task(tmp_path, Mixer(), std=0.3, features=60)
    twice = random_features(replace(task, start=Grey()))
    in_the_fit(1, monkeypatch)
    assert same(random_features(replace(task, start=Grey())), twice)


def test_the_random_features_are_those_of_the_seed(tmp_path: Path) -> None:
    task, _ = make_task(tmp_path, Mixer(), features=1000)
    found, other = drawn(task, Grey()), drawn(replace(task, seed=1), Grey())
    assert found.projection.std() == pytest.approx(128**-0.5, rel=0.01)
    assert found.shift.std() == pytest.approx(0.5, rel=0.1)
    assert not torch.equal(found.projection, other.projection)


def test_it_reads_what_no_linear_map_can(tmp_path: Path) -> None:
    victim = Deployed(SplitModel(Bent(), nn.Identity(), (1, 4, 4)), GaussianNoise(0.0))
    parts = [pairs(victim, smooth(*part)) for part in ((600, 1), (50, 2), (100, 3))]
    task, targets = task_on(tmp_path, victim, parts, {"ridge": 1e-6, "features": 256}, judge())
    found = random_features(replace(task, start=Grey(16)))
    by_linear = (linear(task).reconstructions - targets).square().mean()
    assert (found.reconstructions - targets).square().mean() < 0.5 * by_linear


def test_a_decoder_that_knows_better_is_believed(tmp_path: Path) -> None:
    task, targets = make_task(tmp_path, Mixer(), std=0.5, features=16)
    start = Told(task.held_out.targets(), targets.float())
    found = random_features(replace(task, start=start))
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
    """With the same noise twice, 1200 releases of 628 features would be fitted too closely."""
    task, targets = make_task(tmp_path, Mixer(), std=0.3, features=500)
    errors = []
    for releases in (1200, 2400, 9600):
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


@pytest.mark.parametrize("images", [2, 20])
@pytest.mark.parametrize("client", [Constant, Mixer])
def test_few_images_without_noise_are_enough(
    tmp_path: Path, client: type[nn.Module], images: int
) -> None:
    """Covariances of low rank, or none, whose smallest eigenvalues are negative by rounding."""
    task, targets = make_task(tmp_path, client(), features=300)
    few = replace(task, own=task.own.part(slice(images)), start=Grey())
    error = (random_features(few).reconstructions - targets).square().mean()
    assert error < 1.1 * (targets - 0.5).square().mean()


def test_features_that_are_not_finite_are_an_error(tmp_path: Path) -> None:
    task, _ = make_task(tmp_path, Mixer(), features=4)
    broken = replace(task.own, features=task.own.features * float("nan"))
    with pytest.raises(DivergedError, match="not finite"):
        random_features(replace(task, own=broken, start=Grey()))
