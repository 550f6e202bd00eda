"""The optimisation of the image: its answers in closed form, its choices, and its resumption."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from easy_tasks import judge, pairs, same, smooth, task_on
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.budget import RATES
from cemlib.attacks.optimisation import (
    WEIGHTS,
    Descent,
    Settings,
    _variants,
    checkpoints,
    optimisation,
    total_variation,
)
from cemlib.attacks.task import Outcome, Task
from cemlib.config.attacks import Optimisation
from cemlib.defences.channels import Channel, build
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models import build as build_model
from cemlib.models.split import SplitModel
from cemlib.numerics.divergence import DivergedError
from cemlib.records.checkpoint import Checkpoint

OPTIONS: dict[str, Any] = {"iterations": 60, "lr": 0.05, "tv_weight": 0.0}
ENLARGE = nn.Upsample(scale_factor=4)  # stands in for a trained decoder


@dataclass(frozen=True)
class Counting(GaussianNoise):
    """Gaussian noise that counts how often it is asked for a misfit, and may break down."""

    calls: list[int] = field(default_factory=list)
    last: float = float("inf")

    def misfit(self, features: Tensor, released: Tensor, queries: int = 1) -> Tensor:
        self.calls.append(len(released))
        if len(self.calls) > self.last:
            raise KeyboardInterrupt
        return super().misfit(features, released, queries)


def attack_task(
    place: Path, encoder: nn.Module, channel: Channel, *, channels: int = 1, **options: Any
) -> tuple[Task, Tensor]:
    """A task on smooth images and, apart from it, the images that are to be found."""
    victim = Deployed(SplitModel(encoder, nn.Identity(), (1, 4, 4)), channel)
    settings = Optimisation(**(OPTIONS | options)).model_dump()
    owned, targets = (pairs(victim, smooth(*part, channels)) for part in ((7, 1), (9, 2)))
    task, truth = task_on(place, victim, [owned, owned, targets], settings, judge(channels))
    task.checkpoint.interval = 0.0
    return task, truth


def error_of(task: Task, truth: Tensor) -> float:
    return F.mse_loss(optimisation(task).reconstructions, truth).item()


def client(channels: int = 1) -> nn.Module:
    """A convolutional client with batch normalisation, pooling and a sigmoid."""
    torch.manual_seed(7)
    # Not the grey of the start: exactly there, a client without biases has no slope.
    mean, std = (0.4,) * channels, (0.25,) * channels
    return build_model("small", num_classes=3, image_size=16, cut=3, mean=mean, std=std).encoder


def test_the_total_variation_by_loops() -> None:
    images = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    for image, found in zip(images.double().numpy(), total_variation(images), strict=True):
        down = [(image[c, i + 1, j] - image[c, i, j]) ** 2 for c, i, j in np.ndindex(3, 3, 5)]
        right = [(image[c, i, j + 1] - image[c, i, j]) ** 2 for c, i, j in np.ndindex(3, 4, 4)]
        assert found.item() == pytest.approx(np.mean(down) + np.mean(right), rel=1e-5)


def test_checkpoints_are_even_with_a_close_look_at_the_beginning() -> None:
    assert checkpoints(1) == [0, 1]
    assert checkpoints(50) == [0, 1, *range(2, 51, 2)]
    assert checkpoints(500)[:9] == [0, 1, 2, 4, 8, 16, 20, 40, 60]
    assert checkpoints(500)[-2:] == [480, 500]


def test_least_squares_of_a_strided_average(tmp_path: Path) -> None:
    """Of all images with the released averages, descent from grey finds the one nearest to grey."""
    task, _ = attack_task(tmp_path, nn.AvgPool2d(4), GaussianNoise(0.3))
    descent = Descent(task, task.released, Settings(steps=0, lr=0.02, tv_weight=0.0))
    descent.run_until(400)
    nearest = ENLARGE(task.released.clamp(0, 1))
    assert (task.released < 0).any()
    assert torch.allclose(descent.images, nearest, atol=1e-3)


def test_total_variation_in_closed_form(tmp_path: Path) -> None:
    """Behind the identity, the minimum of |x - z~|^2 / D + w TV(x) solves a linear system."""
    side, weight = 16, 0.05
    task, _ = attack_task(tmp_path, nn.Identity(), GaussianNoise(0.02))
    step = np.diff(np.eye(side), axis=0)
    down, right = np.kron(step, np.eye(side)), np.kron(np.eye(side), step)
    roughness = down.T @ down / len(down) + right.T @ right / len(right)
    system = np.eye(side**2) / side**2 + weight * roughness
    released = task.released.flatten(1).double().numpy()
    expected = np.linalg.solve(system, released.T / side**2).T
    assert np.array_equal(expected, expected.clip(0, 1))  # the bounds are not active
    descent = Descent(task, task.released, Settings(steps=0, lr=0.01, tv_weight=weight))
    descent.run_until(400)
    found = descent.images.detach().flatten(1).numpy()
    assert np.abs(found - expected).max() < 2e-3 < np.abs(released - expected).max()


@pytest.mark.parametrize(("std", "queries", "factor"), [(0.0, 1, 1), (0.1, 1, 16), (0.1, 4, 4)])
def test_the_prior_weighs_more_with_more_noise(
    tmp_path: Path, std: float, queries: int, factor: int
) -> None:
    """In proportion to the variance on the mean release, from a deviation of 0.025 on."""
    options = {"queries": queries, "iterations": 1, "tv_weight": 0.5}
    task, _ = attack_task(tmp_path, nn.Identity(), GaussianNoise(std), **options)
    assert optimisation(task).state["tv_weight"] == pytest.approx(0.5 * factor)


def test_a_client_that_tells_nothing_leaves_the_image_at_its_start(tmp_path: Path) -> None:
    constant = nn.Sequential(nn.AvgPool2d(4), nn.Threshold(2.0, 0.0))
    task, _ = attack_task(tmp_path, constant, GaussianNoise(0.1), tv_weight=1.0)
    found = optimisation(task)
    assert torch.equal(found.reconstructions, torch.full_like(found.reconstructions, 0.5))
    assert found.state["steps"] == 0


def test_a_decoders_answer_is_the_start(tmp_path: Path) -> None:
    """Clamped; a descent of no steps gives it back."""
    task, _ = attack_task(tmp_path, nn.AvgPool2d(4), GaussianNoise(0.5))
    descent = Descent(replace(task, start=ENLARGE), task.released, Settings(0, 0.1, 0.0))
    assert torch.equal(descent.images, ENLARGE(task.released).clamp(0, 1))
    assert (task.released > 1).any()


def test_more_queries_give_a_lower_error(tmp_path: Path) -> None:
    errors = []
    for queries in (1, 16):
        place, channel = tmp_path / str(queries), GaussianNoise(0.2)
        errors.append(error_of(*attack_task(place, nn.Identity(), channel, queries=queries)))
    assert errors[1] < 0.25 * errors[0]


def test_the_channel_is_modelled_as_it_is(tmp_path: Path) -> None:
    """Against dropout, an attacker who takes zeros for small features does worse."""
    dropout = build("dropout", noise_std=0.03, rate=0.3)
    task, truth = attack_task(tmp_path / "one", nn.Identity(), dropout, tv_weight=0.1)
    unaware, _ = attack_task(tmp_path / "two", nn.Identity(), GaussianNoise(0.03), tv_weight=0.1)
    unaware = replace(unaware, released=task.released)
    assert error_of(task, truth) < 0.5 * error_of(unaware, truth)


def test_the_steps_are_those_with_the_lowest_held_out_error(tmp_path: Path) -> None:
    """Through much noise, the first steps help and the later ones fit the noise."""
    task, _ = attack_task(tmp_path, nn.Identity(), GaussianNoise(0.15), lr=0.02)
    found = optimisation(task)
    errors = [row["val_mse"] for row in found.history]
    best = found.history[errors.index(min(errors))]["epoch"]
    assert found.state["steps"] == best
    assert 0 < best < 60
    descent = Descent(task, task.released, Settings(best, 0.02, 0.0))
    descent.run_until(best)
    assert torch.equal(found.reconstructions, descent.images)


def test_the_history_counts_steps(tmp_path: Path) -> None:
    task, _ = attack_task(tmp_path, nn.Identity(), GaussianNoise(0.0), iterations=50)
    history = optimisation(task).history
    assert [row["epoch"] for row in history] == checkpoints(50)
    assert all(row["lr"] == 0.05 and row["train_mse"] is None for row in history)
    grey = (task.held_out.targets().double() - 0.5).square().mean().item()
    assert history[0]["val_mse"] == pytest.approx(grey, rel=1e-5)
    assert history[0]["misfit"] == pytest.approx(grey, rel=1e-5)  # per feature, of the identity
    assert history[-1]["val_mse"] < 1e-2 * grey


@pytest.mark.parametrize("channels", [1, 3])
def test_the_number_of_images_at_once_decides_no_number(tmp_path: Path, channels: int) -> None:
    found = []
    for size in (4, 512):  # chunks of 4 and 3, and of 4, 4 and 1
        options = {"channels": channels, "batch_size": size, "iterations": 30, "tv_weight": 0.01}
        task, _ = attack_task(
            tmp_path / str(size), client(channels), GaussianNoise(0.05), **options
        )
        found.append(optimisation(task))
    # Convolutions round differently with the number of images; Adam amplifies this in few pixels.
    apart = (found[0].reconstructions - found[1].reconstructions).abs()
    assert apart.mean() < 1e-5
    assert apart.max() < 1e-3
    assert found[0].state["steps"] == found[1].state["steps"] > 0


def test_the_victim_is_left_as_it_was(tmp_path: Path) -> None:
    """In eval mode whatever its mode was; neither gradients nor statistics stay behind."""
    task, _ = attack_task(tmp_path / "one", client(), GaussianNoise(0.05))
    before = {n: tensor.clone() for n, tensor in task.victim.model.state_dict().items()}
    first = optimisation(task)
    task.victim.model.train()
    again = optimisation(replace(task, checkpoint=Checkpoint(tmp_path / "two")))
    assert same(first, again)
    assert all(weights.grad is None for weights in task.victim.model.parameters())
    for name, tensor in task.victim.model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_the_configured_settings_are_tried_first() -> None:
    configured = Settings(20, 0.01, 0.1, 0.5)
    assert _variants(configured)[0] == configured


def test_strong_is_not_weaker(tmp_path: Path) -> None:
    """From settings that are too timid, it finds better ones among those it tries."""
    timid = {"iterations": 20, "lr": 0.006, "tv_weight": 0.1 / 16}  # 0.1 with this noise
    errors, states = {}, {}
    for name in ("standard", "strong"):
        place, channel = tmp_path / name, GaussianNoise(0.1)
        task, truth = attack_task(place, nn.Identity(), channel, budget=name, **timid)
        found = optimisation(task)
        errors[name] = F.mse_loss(found.reconstructions, truth).item()
        states[name] = {key: tensor.item() for key, tensor in found.state.items()}
    assert errors["strong"] < 0.8 * errors["standard"]
    assert states["standard"]["lr"] == pytest.approx(0.006)
    assert states["standard"]["tv_weight"] == pytest.approx(0.1)
    assert states["strong"]["lr"] == pytest.approx(RATES[-1] * 0.006)
    assert states["strong"]["tv_weight"] == pytest.approx(WEIGHTS[-1] * 0.1)
    assert 20 < states["strong"]["steps"] <= 60


def chunked_task(place: Path, channel: Channel) -> Task:
    """Seven held-out images and nine to find, in chunks of three, with 20 steps."""
    options = {"batch_size": 3, "iterations": 20, "lr": 0.02, "tv_weight": 0.01}
    return attack_task(place, client(), channel, **options)[0]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    counting = Counting(0.05)
    found = optimisation(chunked_task(tmp_path_factory.mktemp("alone"), counting))
    assert len(counting.calls) == 3 * 41 + 3 * 21
    return found


@pytest.mark.parametrize(("killed_at", "left"), [(40, 186), (130, 63), (150, 42), (185, 21)])
def test_a_killed_attack_ends_with_the_same_bits(
    tmp_path: Path, undisturbed: Outcome, killed_at: int, left: int
) -> None:
    """It dies at held-out images (3 chunks, 20 steps, 21 looks), or in a chunk of 3 (one look)."""
    task = chunked_task(tmp_path, Counting(0.05, last=killed_at))
    with pytest.raises(KeyboardInterrupt):
        optimisation(task)
    resumed = Counting(0.05)
    task = replace(task, victim=replace(task.victim, channel=resumed))
    assert same(optimisation(task), undisturbed)
    assert len(resumed.calls) == left


def test_a_misfit_that_is_no_number_is_named_with_its_step(tmp_path: Path) -> None:
    task, _ = attack_task(tmp_path / "one", nn.Identity(), GaussianNoise(0.0))
    broken = task.released.clone()
    broken[4] = torch.nan
    with pytest.raises(DivergedError, match="epoch 60: misfit is nan"):
        optimisation(replace(task, released=broken))
    broken_pairs = replace(task.held_out, features=task.held_out.features * torch.inf)
    task = replace(task, held_out=broken_pairs, checkpoint=Checkpoint(tmp_path / "two"))
    with pytest.raises(DivergedError, match=r"epoch 0: misfit is (inf|nan)"):
        optimisation(task)
