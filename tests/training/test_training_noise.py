"""Noise that hides everything leaves chance in training, validation, test and attack."""

from pathlib import Path

import pytest
import torch
from tiny_study import CPU, blob_data, judged, tiny_plan, trained

from cemlib.defences.deployed import load_deployed
from cemlib.evaluation.job import run as attack
from cemlib.records.files import read_json, read_jsonl
from cemlib.study.split import attack_job

EPOCHS = 8


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with no noise and with noise that drowns features in (0, 1)."""
    place = tmp_path_factory.mktemp("noise")
    for defence in ("none", "huge_noise"):
        settings = {"epochs": EPOCHS, "milestones": []}
        trained(place, defence, **settings)
        job = attack_job(judged(place, **settings), defence, 0, ["decoder", "linear"], "cpu")
        assert len(list(attack(job))) == 4
    return place / "tiny/runs"


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_every_split_is_scored_through_the_channel(results: Path, split: str) -> None:
    found = {}
    for defence in ("none", "huge_noise"):
        folder = results / defence / "seed0"
        last = read_jsonl(folder / "history.jsonl")[-1]
        metrics = read_json(folder / "metrics.json")
        found[defence] = {
            "train": last["train_top1"],
            "val": last["val_top1"],
            "test": metrics["top1"],
        }[split]
    assert found["none"] > 0.9
    assert found["huge_noise"] < 0.6


def test_the_attackers_learn_nothing_through_the_channel(results: Path) -> None:
    """Their answers to what drowned in noise are no better than the mean of the targets."""
    targets = blob_data().test.images.double() / 255
    spread = (targets - targets.mean(0)).square().mean().item()
    for attack_name in ("decoder", "linear"):
        folder = results / "huge_noise/seed0/attacks" / f"{attack_name}-train_data"
        assert read_json(folder / "metrics.json")["mse"] > 0.98 * spread


def test_the_decoder_trains_on_noisy_features(results: Path) -> None:
    """With clean features in its training, its error there would fall under the spread."""
    images = blob_data().train.images.double() / 255
    spread = (images - images.mean(0)).square().mean().item()
    for defence, below in (("none", True), ("huge_noise", False)):
        rows = read_jsonl(results / defence / "seed0/attacks/decoder-train_data/history.jsonl")
        assert (rows[-1]["train_mse"] < 0.95 * spread) is below


def test_the_saved_run_knows_its_noise(results: Path) -> None:
    run = tiny_plan(results.parents[1]).layout.run("huge_noise", 0)
    deployed = load_deployed(run, CPU)
    assert deployed.channel.std == 1000
    assert not deployed.model.training
    assert torch.equal(deployed.model.encoder[0].mean, torch.tensor([[[[0.5]]]]))
