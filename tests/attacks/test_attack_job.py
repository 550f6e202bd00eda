"""The attack job: what the attacker has in hand, what is scored, and what is left behind."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from tiny_study import blob_data, judged, tiny_plan, trained

from cemlib.attacks.task import Task
from cemlib.evaluation.job import read_data, read_scene, run
from cemlib.evaluation.scene import first_target
from cemlib.evaluation.scores import MEASURES
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.files import load_tensors, read_json, read_jsonl
from cemlib.records.layout import KNOWLEDGES, RunFolder
from cemlib.study.split import attack_job

FIRST = {"train_data": 0, "public_data": 54}  # of 60 test images


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One trained run, attacked by everything."""
    place = tmp_path_factory.mktemp("attacked")
    trained(place, "noise")
    job = attack_job(judged(place), "noise", 0, ["decoder", "linear", "mean_image"])
    assert len(list(run(job))) == 6
    return place


@pytest.fixture(scope="module")
def folder(study: Path) -> RunFolder:
    return tiny_plan(study).layout.run("noise", 0)


@pytest.fixture(scope="module")
def tasks(study: Path) -> dict[str, Task]:
    """The tasks that an attack gets, by knowledge."""
    job = attack_job(tiny_plan(study), "noise", 0, ["mean_image"])
    scene = read_scene(job, read_data(job))
    return {each: scene.task("mean_image", each, Checkpoint(study)) for each in KNOWLEDGES}


def test_what_is_finished_is_on_disk_before_the_next_attack_begins(tmp_path: Path) -> None:
    """An attack that ends before its checkpoint is due is not repeated if the job is killed."""
    trained(tmp_path, "noise")
    attacks = run(attack_job(judged(tmp_path), "noise", 0, ["decoder"]))
    assert not list(tmp_path.rglob(".checkpoints/*/*"))
    next(attacks)
    assert list(tmp_path.rglob(".checkpoints/*/*"))
    attacks.close()


def test_each_knowledge_owns_exactly_its_images(tasks: dict[str, Task]) -> None:
    data = blob_data()
    assert torch.equal(tasks["train_data"].own.images, data.train.images)
    assert torch.equal(tasks["train_data"].held_out.images, data.val.images)
    assert torch.equal(tasks["public_data"].own.images, data.test.images[:48])
    assert torch.equal(tasks["public_data"].held_out.images, data.test.images[48:54])
    for knowledge, task in tasks.items():
        assert len(task.released) == 60 - FIRST[knowledge]


def test_the_released_features_are_those_of_the_targets_with_noise(tasks: dict[str, Task]) -> None:
    targets = blob_data().test.images
    for knowledge, task in tasks.items():
        with torch.no_grad():
            clean = task.victim.model.encoder(targets[FIRST[knowledge] :].float() / 255)
        noise = (task.released - clean).flatten()
        assert noise.std().item() == pytest.approx(0.025, rel=0.1)
        assert abs(noise.mean().item()) < 0.005


@pytest.mark.parametrize(
    ("knowledge", "images", "first"),
    [
        ("train_data", 10_000, 0),
        ("public_data", 10_000, 9_000),
        ("public_data", 60, 54),
        ("public_data", 450, 405),
        ("public_data", 15, 13),
    ],
)
def test_where_the_targets_begin(knowledge: str, images: int, first: int) -> None:
    assert first_target(knowledge, images) == first


@pytest.mark.parametrize("attack", ["decoder", "linear", "mean_image"])
@pytest.mark.parametrize("knowledge", KNOWLEDGES)
def test_everything_is_left_and_agrees(folder: RunFolder, attack: str, knowledge: str) -> None:
    place = folder.attack(attack, knowledge)
    assert all(file.is_file() for file in place.files())
    metrics, table = read_json(place.metrics), pd.read_parquet(place.per_image)
    assert list(table.columns) == ["index", "label", *MEASURES, "recognised"]
    assert table["index"].tolist() == list(range(FIRST[knowledge], 60))
    assert table["label"].tolist() == blob_data().test.labels[FIRST[knowledge] :].tolist()
    assert metrics["n_images"] == len(table)
    for name in MEASURES:
        assert metrics[name] == pytest.approx(table[name].mean(), rel=1e-6)
    assert metrics["psnr_of_mean_mse"] == pytest.approx(-10 * np.log10(table["mse"].mean()))
    assert metrics["psnr"] > metrics["psnr_of_mean_mse"]
    expected = {"kind": "attack", "status": "ok", "reason": None, "attack": attack}
    expected |= {"knowledge": knowledge, "defence": "noise", "seed": 0, "experiment": "tiny"}
    assert {key: metrics[key] for key in expected} == expected
    curve = [row["val_mse"] for row in read_jsonl(place.history)]
    assert len(curve) == (20 if attack == "decoder" else 0)
    late = 1 - min(curve) / min(curve[:-2]) if curve else None  # a tenth of 20 epochs is two
    assert metrics["late_improvement"] == pytest.approx(late)
    assert metrics["converged"] == (late <= 0.01 if curve else None)
    assert metrics["queries"] == 1


@pytest.mark.parametrize("knowledge", KNOWLEDGES)
def test_the_mean_images_error_by_numpy(folder: RunFolder, knowledge: str) -> None:
    data = blob_data()
    own = data.train.images if knowledge == "train_data" else data.test.images[:48]
    targets = data.test.images[FIRST[knowledge] :].numpy() / 255.0
    errors = ((targets - (own.numpy() / 255.0).mean(0)) ** 2).mean((1, 2, 3))
    place = folder.attack("mean_image", knowledge)
    np.testing.assert_allclose(pd.read_parquet(place.per_image)["mse"], errors, rtol=1e-4)
    assert read_json(place.metrics)["mse"] == pytest.approx(errors.mean(), rel=1e-5)


def strip(folder: RunFolder, attack: str, knowledge: str) -> Any:
    """Pixels of a strip, cut into (row, column, side, side) and scaled back."""
    path = folder.attack(attack, knowledge).reconstructions
    pixels = np.asarray(Image.open(io.BytesIO(path.read_bytes())))
    side = pixels.shape[0] // 2
    columns = pixels.shape[1] // side
    assert pixels.shape == (2 * side, columns * side)
    factor = side // 16
    small = pixels[::factor, ::factor]
    assert (small.repeat(factor, 0).repeat(factor, 1) == pixels).all()
    return small.reshape(2, 16, columns, 16).swapaxes(1, 2)


def test_every_strip_shows_the_same_originals(folder: RunFolder) -> None:
    labels = blob_data().test.labels[54:].tolist()
    shown = [54 + labels.index(label) for label in sorted(set(labels))]
    expected = blob_data().test.images[shown, 0].numpy()
    for attack in ("decoder", "linear", "mean_image"):
        for knowledge in KNOWLEDGES:
            originals, answers = strip(folder, attack, knowledge)
            assert (originals == expected).all()
            assert answers.shape == originals.shape


def test_the_strip_shows_the_reconstructions_below(folder: RunFolder) -> None:
    mean = load_tensors(folder.attack("mean_image", "train_data").attacker)["mean"][0].numpy()
    for answer in strip(folder, "mean_image", "train_data")[1]:
        assert (answer == np.round(255 * mean)).all()
