"""Every defence composes with every other in one training, to deployment."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_study import CPU, RAW, blob_data, tiny_plan, tiny_trainer, trained
from torch import nn
from torch.nn import functional as F

from cemlib.config import ConfigError, parse
from cemlib.defences.channels import CHANNELS
from cemlib.defences.channels import build as build_channel
from cemlib.defences.deployed import load_deployed
from cemlib.numerics.seeds import derive, generator
from cemlib.records.files import load_tensors, read_json, read_jsonl
from cemlib.training.job import new_trainer


def test_pruning_makes_the_deployed_client_smaller(tmp_path: Path) -> None:
    folder = trained(tmp_path, "undressed", epochs=3)
    metrics, config = read_json(folder.metrics), read_json(folder.config)
    assert config["network"]["client_widths"] == [8, 16]  # half of 16 and 32
    # 1-8 and 8-16 convolutions of 3x3 with bias and batch normalisation, the bottleneck 16-8.
    size = (9 * 8 + 8 + 16) + (9 * 8 * 16 + 16 + 32) + (9 * 16 * 8 + 8)
    assert metrics["parameters"]["client"] == size
    cost = metrics["client_cost"]
    assert cost["deployed"]["parameters"] == size
    assert cost["before_pruning"]["parameters"] == (9 * 16 + 48) + (9 * 16 * 32 + 96) + 9 * 256 + 8
    assert cost["deployed"]["flops"] < 0.5 * cost["before_pruning"]["flops"]
    stored = sum(t.numel() for n, t in load_tensors(folder.model).items() if "encoder" in n)
    assert stored < 2 * size
    deployed = load_deployed(folder, CPU)
    scores = deployed.score(
        blob_data().test.images, blob_data().test.labels, generator(0, "test_noise")
    )
    assert scores["top1"] == metrics["top1"]


def test_only_an_epoch_after_the_pruning_is_deployed(tmp_path: Path) -> None:
    """A network that learned, lost most of its channels, and had no rate left to learn again."""
    settings = {"epochs": 8, "milestones": [7], "decay": 1e-12, "select": "best_val"}
    folder = trained(tmp_path, "stripped", **settings)
    scores = [row["val_top1"] for row in read_jsonl(folder.history)]
    assert max(scores[:7]) > scores[7]
    assert read_json(folder.metrics)["selected_epoch"] == 8


@pytest.mark.parametrize("name", ["nopeek", "bido", "fisher", "arl"])
def test_a_penalty_pulls_on_the_client(tmp_path: Path, name: str) -> None:
    """One step on all images, by torch's SGD on cross-entropy and penalty."""
    settings = {"batch_size": 97, "epochs": 1}
    subject, other = (tiny_trainer(tmp_path, name, **settings) for _ in range(2))
    model, train = other.deployed.model.train(), other.data.train
    order = torch.randperm(97, generator=generator(0, "order", 1))
    images, labels = (train.images[order].float() / 255).requires_grad_(), train.labels[order]
    torch.manual_seed(derive(0, "dropout", 1))
    z = model.encoder(images)
    released = z + 0.025 * torch.randn(z.shape, generator=generator(0, "noise", 1))
    ce = F.cross_entropy(model.head(released), labels)
    pull = other.defended.penalty(images, labels, z, released)
    first = next(model.encoder.parameters())
    (alone,) = torch.autograd.grad(ce, [first], retain_graph=True)
    (ce + pull).backward()
    assert (first.grad - alone).norm() > 1e-4 * alone.norm()
    torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4).step()
    row = subject.epoch(1)
    assert row["penalty"] == pytest.approx(pull.item(), rel=1e-4)
    assert row["train_loss"] == pytest.approx((ce + pull).item(), rel=1e-4)
    for one, expected in zip(subject.deployed.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-6)


def test_a_surrogate_sees_the_features_as_the_channel_shapes_them() -> None:
    shaped = {"surrogate": "logdet", "channel": {"name": "topk", "keep": 0.1}}
    settings = {"epochs": 3, "batch_size": 97, "milestones": [3], "lr": 1e-30}
    study = parse(RAW | {"train": settings, "defences": {"shaped": shaped}})
    subject, other = (new_trainer(study, "shaped", 0, blob_data()) for _ in range(2))
    rows = [subject.epoch(number) for number in (1, 2)]
    train, deployed = other.data.train, other.deployed
    with torch.no_grad():
        z = deployed.model.train().encoder(train.images.float() / 255)
        expected, bare = (
            other.surrogate(each.flatten(1), train.labels)
            for each in (deployed.channel.shape(z), z)
        )
    assert rows[1]["surrogate"] == pytest.approx(expected.item(), rel=1e-4)
    assert abs(expected - bare) > 0.1 * bare


@pytest.mark.parametrize("name", CHANNELS)
def test_the_server_trains_on_what_the_channel_releases(tmp_path: Path, name: str) -> None:
    """The first epoch's loss, computed by hand from the features of the untrained network."""
    settings = {"epochs": 1, "batch_size": 97}
    subject, other = (tiny_trainer(tmp_path, f"by_{name}", **settings) for _ in range(2))
    order = torch.randperm(97, generator=generator(0, "order", 1))
    model, data = other.deployed.model.train(), other.data
    torch.manual_seed(derive(0, "dropout", 1))
    options = RAW["defences"][f"by_{name}"]["channel"]
    channel = build_channel(noise_std=0.025, **options)
    with torch.no_grad():
        features = model.encoder(data.train.images[order].float() / 255)
        released = channel(features, generator(0, "noise", 1))
        logits = model.head(released)
    expected = F.cross_entropy(logits, data.train.labels[order]).item()
    assert subject.epoch(1)["train_ce"] == pytest.approx(expected, rel=1e-4)


def test_a_surrogate_measures_against_all_the_noise() -> None:
    """Local DP's own noise counts too, here a Laplace distribution of scale 2 clip / epsilon."""
    channel = {"name": "local_dp", "epsilon": 5.0, "clip": 1.0}
    private = {"noise_std": 0.3, "surrogate": "logdet", "channel": channel}
    study = parse(RAW | {"defences": {"private": private}})
    surrogate = new_trainer(study, "private", 0, blob_data()).surrogate
    assert surrogate.noise_std == pytest.approx(math.hypot(math.sqrt(2) * 2 / 5, 0.3))


@pytest.mark.parametrize("share", [None, 0.2])
def test_a_studys_dropout_reaches_the_network(tmp_path: Path, share: float | None) -> None:
    study = tiny_plan(tmp_path).study
    if share is not None:
        model = study.model.model_copy(update={"dropout": share})
        study = study.model_copy(update={"model": model})
    trainer = new_trainer(study, "noise", 0, blob_data())
    found = [m.p for m in trainer.deployed.model.modules() if isinstance(m, nn.Dropout)]
    assert found == [0.5 if share is None else share]


@pytest.mark.parametrize(
    ("sections", "place"),
    [
        ({"model": {"name": "resnet20", "dropout": 0.1}}, "model"),
        ({"defences": {"deep": {"model": {"name": "resnet20"}}}}, "defences.deep.model"),
    ],
)
def test_an_impossible_network_names_its_section(sections: dict[str, Any], place: str) -> None:
    study = parse(RAW | {"defences": {"deep": {}}, "model": {"dropout": 0.2}} | sections)
    with pytest.raises(ConfigError, match=f"^{place}: dropout: resnet20 has none"):
        new_trainer(study, "deep", 0, blob_data())
