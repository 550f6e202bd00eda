"""The images that an attack gets: how many, whether mirrored, and whether with their classes."""

from pathlib import Path
from typing import Any

import pytest
import torch
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
    return Scene(parse(raw), "noise", 0, blob_data(), victim, victim)


def given(subject: Scene, attack: str = "decoder", knowledge: str = "train_data") -> Task:
    """The task that an attack gets."""
    return subject.task(attack, knowledge, Checkpoint(Path("unused")))


UNMIRRORED = {"train": {"augment": {"flip": False}}}


@pytest.mark.parametrize(
    ("knowledge", "defence"), [("train_data", {}), ("public_data", {}), ("train_data", UNMIRRORED)]
)
def test_mirror_images_come_with_their_own_features(
    knowledge: str, defence: dict[str, Any]
) -> None:
    """Also against a defence that trains without them, which would otherwise look more private."""
    subject, count = scene({"decoder": {}}, flip=True, defence=defence), OWNED[knowledge]
    task, (plain, held_out) = given(subject, knowledge=knowledge), subject.owned(knowledge)
    own = task.own
    assert len(own.images) == len(own.features) == len(own.labels) == 2 * count
    assert torch.equal(own.images[:count], plain.images)
    backwards = plain.images[..., torch.arange(15, -1, -1)]
    assert not torch.equal(backwards, plain.images)
    assert torch.equal(own.images[count:], backwards)
    assert torch.equal(own.labels, plain.labels.repeat(2))
    with torch.no_grad():
        features = subject.victim.model.encoder(own.images.float() / 255)
    torch.testing.assert_close(own.features, features, atol=1e-6, rtol=0)
    assert torch.equal(task.held_out.images, held_out.images)


@pytest.mark.parametrize(
    ("attacks", "flip"),
    [
        ({"decoder": {}}, False),
        ({"decoder": {"flip": False}}, True),
        ({"residual": {}}, True),
    ],
    ids=["not in the study", "not in the attack", "no such option"],
)
def test_without_either_there_are_none(attacks: dict[str, Any], flip: bool) -> None:
    (name,) = attacks
    own = given(scene(attacks, flip), name).own
    assert torch.equal(own.images, blob_data().train.images)
    assert len(own.features) == len(own.labels) == 97


@pytest.mark.parametrize(("images", "count"), [(20, 20), (1000, 97)])
def test_no_more_images_than_configured(images: int, count: int) -> None:
    task = given(scene({"decoder": {"images": images}}, flip=True))
    mirrored = blob_data().train.images[:count].flip(3)
    assert torch.equal(task.own.images[count:], mirrored)
    assert len(task.own.features) == 2 * count
    assert torch.equal(task.held_out.images, blob_data().val.images)


@pytest.mark.parametrize("knowledge", OWNED)
def test_who_knows_the_class_sees_the_same_releases_and_maps_of_the_class(knowledge: str) -> None:
    """Map k of an image is 1 everywhere if its class is k, or else 0; also for mirror images."""
    subject = scene({"decoder": {}, "told": {"kind": "decoder", "knows_class": True}}, flip=True)
    plain, told = (given(subject, attack, knowledge) for attack in ("decoder", "told"))
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
