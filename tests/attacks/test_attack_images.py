"""The images that an attack gets: how many, whether mirrored, and whether with their classes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from easy_tasks import spied
from tiny_study import RAW, bare_trainer, blob_data

from cemlib.attacks.task import Outcome, Task
from cemlib.config import parse
from cemlib.evaluation.scene import Scene
from cemlib.evaluation.scores import scored
from cemlib.records.checkpoint import Checkpoint

OWNED = {"train_data": 97, "public_data": 48}


def scene(attacks: dict[str, Any], flip: bool, defence: dict[str, Any] | None = None) -> Scene:
    """An untrained victim of a study, which is its own judge."""
    train = RAW["train"] | {"augment": {"flip": flip}}
    raw = RAW | {"train": train, "attacks": attacks, "defences": {"noise": defence or {}}}
    victim = bare_trainer().deployed
    victim.model.eval()
    return Scene(parse(json.loads(json.dumps(raw))), "noise", 0, blob_data(), victim, victim)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    return spied(monkeypatch, "decoder", "residual")


@pytest.mark.parametrize("knowledge", OWNED)
def test_mirror_images_come_with_their_own_features(
    tmp_path: Path, seen: list[Task], knowledge: str
) -> None:
    subject, count = scene({"decoder": {}}, flip=True), OWNED[knowledge]
    subject.attempt("decoder", knowledge, Checkpoint(tmp_path))
    own, plain = seen[0].own, subject.owned(knowledge)[0]
    assert len(own.images) == len(own.features) == len(own.labels) == 2 * count
    assert torch.equal(own.images[:count], plain.images)
    backwards = plain.images[..., torch.arange(15, -1, -1)]
    assert not torch.equal(backwards, plain.images)
    assert torch.equal(own.images[count:], backwards)
    assert torch.equal(own.labels, plain.labels.repeat(2))
    with torch.no_grad():
        features = subject.victim.model.encoder(own.images.float() / 255)
    torch.testing.assert_close(own.features, features, atol=1e-6, rtol=0)
    assert torch.equal(seen[0].held_out.images, subject.owned(knowledge)[1].images)


def test_the_training_of_one_defence_does_not_weaken_its_attacker(
    tmp_path: Path, seen: list[Task]
) -> None:
    """Otherwise a defence that trains without mirror images would look more private."""
    own = {"train": {"augment": {"flip": False}}}
    scene({"decoder": {}}, flip=True, defence=own).attempt(
        "decoder", "train_data", Checkpoint(tmp_path)
    )
    assert len(seen[0].own.images) == 2 * OWNED["train_data"]


@pytest.mark.parametrize(
    ("attacks", "flip"),
    [
        ({"decoder": {}}, False),
        ({"decoder": {"flip": False}}, True),
        ({"residual": {}}, True),
    ],
    ids=["not in the study", "not in the attack", "no such option"],
)
def test_without_either_there_are_none(
    tmp_path: Path, seen: list[Task], attacks: dict[str, Any], flip: bool
) -> None:
    (name,) = attacks
    scene(attacks, flip).attempt(name, "train_data", Checkpoint(tmp_path))
    assert torch.equal(seen[0].own.images, blob_data().train.images)
    assert len(seen[0].own.features) == len(seen[0].own.labels) == 97


@pytest.mark.parametrize(("images", "count"), [(20, 20), (1000, 97)])
def test_no_more_images_than_configured(
    tmp_path: Path, seen: list[Task], images: int, count: int
) -> None:
    subject = scene({"decoder": {"images": images}}, flip=True)
    subject.attempt("decoder", "train_data", Checkpoint(tmp_path))
    mirrored = blob_data().train.images[:count].flip(3)
    assert torch.equal(seen[0].own.images[count:], mirrored)
    assert len(seen[0].own.features) == 2 * count
    assert torch.equal(seen[0].held_out.images, blob_data().val.images)


@pytest.mark.parametrize("knowledge", OWNED)
def test_who_knows_the_class_sees_the_same_releases_and_maps_of_the_class(
    tmp_path: Path, seen: list[Task], knowledge: str
) -> None:
    """Map k of an image is 1 everywhere if its class is k, or else 0; also for mirror images."""
    subject = scene({"decoder": {}, "told": {"kind": "decoder", "knows_class": True}}, flip=True)
    for attack in ("decoder", "told"):
        subject.attempt(attack, knowledge, Checkpoint(tmp_path))
    plain, told = seen
    first = {"train_data": 0, "public_data": 54}[knowledge]
    labels = blob_data().test.labels[first:]
    cases = (
        (plain.released, told.released, labels),
        (plain.own.features, told.own.features, plain.own.labels),
        (plain.held_out.features, told.held_out.features, plain.held_out.labels),
    )
    for before, after, classes in cases:
        assert torch.equal(after[:, :-3], before)
        expected = torch.eye(3)[classes].view(-1, 3, 1, 1).expand_as(after[:, -3:])
        assert torch.equal(after[:, -3:], expected)


def test_reconstructions_that_are_no_numbers_are_a_failure() -> None:
    subject = scene({"decoder": {}}, flip=False)
    answers = torch.full((len(blob_data().test.images), 1, 16, 16), 0.5)
    assert scored(subject, "decoder", "train_data", Outcome(answers, {})).reason is None
    answers[3, 0, 2, 1] = torch.nan
    found = scored(subject, "decoder", "train_data", Outcome(answers, {}))
    assert found.reason == "the reconstructions are not finite"
