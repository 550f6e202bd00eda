"""The metrics against Jacobians and scikit-learn, and which surrogate gets them when."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from tiny_study import RAW, blob_data
from torch import Generator, Tensor
from torch.autograd.functional import jacobian

import cemlib.training.metrics
from cemlib.config import parse
from cemlib.defences.channels import build as build_channel
from cemlib.defences.deployed import Deployed
from cemlib.models import build
from cemlib.models.split import SplitModel
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.seeds import generator
from cemlib.training.job import new_trainer
from cemlib.training.metrics import RIDGE, image_metric, task_metric
from cemlib.training.trainer import Trainer

CHANNELS: dict[str, dict[str, Any]] = {
    "noise": {},
    "dropout": {"rate": 0.4},
    "topk": {"keep": 0.3},
    "local_dp": {"clip": 20.0},
}


def from_jacobians(answer: Any, features: Tensor) -> Tensor:
    """Sum of J^T J, one sample at a time, from rows that are differences of class pairs.

    sum_c (J_c - mean)^T (J_c - mean) = sum over pairs of (J_c - J_e)^T (J_c - J_e) / (2 C).
    """
    whole = jacobian(answer, features).flatten(3).flatten(3)
    total = torch.zeros((), dtype=torch.float64)
    for sample in range(len(features)):
        rows = whole[sample, :, sample].flatten(1).double()
        for one in rows:
            for other in rows:
                total = total + torch.outer(one - other, one - other) / (2 * len(rows))
    return total


def network(client_widths: tuple[int, ...] | None = None) -> SplitModel:
    """With running statistics of its batch normalisation that differ from those of a batch."""
    torch.manual_seed(0)
    shape = {"num_classes": 3, "image_size": 16, "cut": 4, "mean": (0.5,), "std": (0.25,)}
    model = build("small", **shape, client_widths=client_widths).train()
    for _ in range(3):
        model(torch.rand(16, 1, 16, 16))
    return model


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("client_widths", [None, (5, 9)])
def test_the_metric_is_of_the_released_features_of_images(
    name: str, client_widths: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches, whose releases are drawn one after the other."""
    monkeypatch.setattr(cemlib.training.metrics, "BATCH", 4)
    deployed = Deployed(
        network(client_widths), build_channel(name, noise_std=0.1, **CHANNELS[name])
    )
    images = blob_data().train.images[:6]
    found = task_metric(deployed, images, Generator().manual_seed(3))
    assert found.dtype == torch.float64
    deployed.model.eval()
    draws, expected = Generator().manual_seed(3), torch.zeros(128, 128, dtype=torch.float64)
    for part in deployed.features(images).split(4):
        state = draws.get_state()

        def answer(z: Tensor, state: Tensor = state) -> Tensor:
            draws.set_state(state)
            return deployed.model.head(deployed.channel(z, draws))

        expected += from_jacobians(answer, part)
    assert expected.abs().max() > 0
    torch.testing.assert_close(found, expected / 6, rtol=1e-4, atol=1e-6 * expected.max().item())


def test_neither_weights_nor_statistics_nor_gradients_change() -> None:
    model = network()
    for weights in model.parameters():
        weights.grad = torch.ones_like(weights)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    deployed = Deployed(model, build_channel("noise", noise_std=0.1))
    task_metric(deployed, blob_data().train.images, Generator())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(torch.equal(w.grad, torch.ones_like(w)) for w in model.parameters())


def test_the_image_metric_is_how_much_the_pixels_of_a_linear_reconstruction_move() -> None:
    subject = Deployed(network(), build_channel("noise", noise_std=0.1))
    images = blob_data().train.images
    found = image_metric(subject, images, Generator().manual_seed(3))
    released = subject.channel(subject.features(images), Generator().manual_seed(3))
    z = released.flatten(1).double().numpy()
    pixels = images.flatten(1).double().numpy() / 255
    strength = RIDGE * len(z) * float(np.square(z - z.mean(0)).mean())
    fitted = Ridge(alpha=strength).fit(z, pixels)
    for seed in range(5):
        move = np.random.default_rng(seed).standard_normal(z.shape[1])
        change = fitted.predict(z[:1] + move) - fitted.predict(z[:1])
        np.testing.assert_allclose(move @ found.numpy() @ move, np.square(change).mean(), rtol=1e-6)


def taught(
    place: Path, *, name: str = "task_aware", **defence: Any
) -> tuple[Trainer, list[Tensor]]:
    """A trainer whose surrogate learns from its second epoch on, and what it is taught."""
    defence = {"surrogate": {"name": name, "samples": 20}} | defence
    raw = RAW | {"results": str(place), "defences": {"noise": {}, "mine": defence}}
    subject, lessons = new_trainer(parse(raw), "mine", 0, blob_data()), []
    learn = subject.surrogate.learn

    def listen(metric: Tensor) -> None:
        lessons.append(metric)
        learn(metric)

    subject.surrogate.learn = listen
    return subject, lessons


@pytest.mark.parametrize(
    ("name", "metric"), [("task_aware", task_metric), ("image_aware", image_metric)]
)
@pytest.mark.parametrize(("samples", "count"), [(20, 20), (5000, 97)])
def test_every_acting_epoch_begins_with_a_lesson(
    tmp_path: Path, name: str, metric: Any, samples: int, count: int
) -> None:
    """Of the network as the epoch finds it, after the pruning, at images chosen by the seed."""
    surrogate, pruning = {"name": name, "samples": samples}, {"epoch": 1, "ratio": 0.5}
    subject, lessons = taught(tmp_path, surrogate=surrogate, pruning=pruning)
    subject.epoch(1)
    assert lessons == []
    subject.prune_before(2)
    order = torch.randperm(97, generator=generator(0, "task_images", 2))[:count]
    noise = generator(0, "task_noise", 2)
    expected = metric(subject.deployed, subject.data.train.images[order], noise)
    subject.epoch(2)
    assert subject.client_widths == (8, 16)
    assert len(lessons) == 1
    assert torch.equal(lessons[0], expected)
    subject.epoch(3)
    assert len(lessons) == 2
    assert not torch.equal(lessons[0], lessons[1])


def test_statistics_of_the_unpruned_client_are_forgotten(tmp_path: Path) -> None:
    """Moments are those of the epoch's 96 images alone, and clusters are fitted before it."""
    pruning = {"epoch": 2, "ratio": 0.5}
    subject, _ = taught(tmp_path, surrogate="logdet", pruning=pruning)
    for number in (1, 2):
        subject.epoch(number)
    subject.pass_over(3)
    assert subject.client_widths is not None
    assert subject.surrogate.samples.sum().item() == pytest.approx(96)
    subject, _ = taught(tmp_path, surrogate="clustering", pruning=pruning)
    for number in (1, 2):
        subject.epoch(number)
    fitted, fit = [], subject.surrogate.fit

    def counted(z: Tensor, y: Tensor) -> None:
        fitted.append(z)
        fit(z, y)

    subject.surrogate.fit = counted
    subject.pass_over(3)
    assert [len(z) for z in fitted] == [96]


def test_a_spoilt_network_ends_the_run_as_a_diverged_one(tmp_path: Path) -> None:
    subject, lessons = taught(tmp_path)
    next(iter(subject.deployed.model.head.parameters())).data.fill_(torch.nan)
    with pytest.raises(DivergedError, match="epoch 2: task_metric is nan"):
        subject.epoch(2)
    assert lessons == []


@pytest.mark.parametrize(
    ("name", "channel"), [*(("task_aware", name) for name in CHANNELS), ("image_aware", "dropout")]
)
def test_it_trains_behind_every_channel_on_sparse_codes(
    tmp_path: Path, name: str, channel: str
) -> None:
    """What is learned is known from its first epoch on."""
    released = {"name": channel, **CHANNELS[channel]}
    subject, _ = taught(tmp_path, name=name, channel=released, sparse_coding=True)
    rows = [subject.epoch(number) for number in (1, 2, 3)]
    rank = {"task_aware": "effective_rank", "image_aware": "image_rank"}[name]
    assert f"surrogate/{rank}" not in rows[0]
    for row in rows[1:]:
        assert 1 <= row[f"surrogate/{rank}"] <= 128
        assert 0 < row.get("surrogate/spared", 0.5) < 1
        assert row["surrogate/gradient_ratio"] > 0
