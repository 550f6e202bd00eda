"""What an attack job says beside the errors: recognition, extremes, queries, and its beginnings."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from tiny_study import CPU, blob_data, judged, tiny_plan, trained

from cemlib.config import parse
from cemlib.defences.deployed import load_deployed
from cemlib.evaluation.job import run
from cemlib.evaluation.pictures import extremes
from cemlib.evaluation.scores import MEASURES
from cemlib.numerics.seeds import generator
from cemlib.records.files import FileError, load_tensors, read_json
from cemlib.records.layout import AttackFolder
from cemlib.records.seal import write_sealed
from cemlib.study.plan import Plan
from cemlib.study.running import rerun_job
from cemlib.study.split import attack_job

ATTACKS: dict[str, Any] = {
    "linear": {},
    "linear_16": {"kind": "linear", "queries": 16},
}
TRAIN: dict[str, Any] = {"epochs": 8, "milestones": []}


def replanned(plan: Plan, attacks: dict[str, Any]) -> Plan:
    """The same study with other attacks."""
    return Plan(parse(plan.study.plain() | {"attacks": attacks}), device="cpu")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """An undefended and a noisy run, attacked in closed form."""
    place = tmp_path_factory.mktemp("recognised")
    for defence in ("none", "noise"):
        trained(place, defence, **TRAIN)
    plan = replanned(judged(place, **TRAIN), ATTACKS)
    for defence in ("none", "noise"):
        assert len(list(run(attack_job(plan, defence, 0, list(ATTACKS))))) == 4
    return plan


def test_the_judge_is_no_run_of_the_study(plan: Plan) -> None:
    judge, run_folder = plan.layout.judge, plan.layout.run("none", 0)
    weights, others = load_tensors(judge.model), load_tensors(run_folder.model)
    assert weights.keys() == others.keys()
    assert not torch.equal(weights["encoder.1.0.weight"], others["encoder.1.0.weight"])
    metrics = read_json(judge.metrics)
    assert metrics["config"]["defence"]["noise_std"] == 0
    assert metrics["top1"] > 0.9


@pytest.mark.parametrize("defence", ["none", "noise"])
def test_recognition_is_the_accuracy_on_the_reconstructions(plan: Plan, defence: str) -> None:
    """Recomputed from what was saved: ridge regression's weights, the judge, and the victim, whose
    server sees the reconstruction's features through the channel too.
    """
    test, folder = blob_data().test, plan.layout.run(defence, 0)
    state = load_tensors(folder.attack("linear", "train_data").attacker)
    victim, judge = load_deployed(folder, CPU), load_deployed(plan.layout.judge, CPU)
    std = victim.channel.std
    target, second = (generator(0, f"{name}/train_data") for name in ("target", "recognition"))
    with torch.no_grad():
        features = victim.model.encoder(test.images.float() / 255)
        released = features + std * torch.randn(features.shape, generator=target)
        answers = released.flatten(1).double() @ state["weights"].double()
        images = (answers + state["intercept"].double()).clamp(0, 1).float().view(-1, 1, 16, 16)
        again = victim.model.encoder(images)
        again = again + std * torch.randn(again.shape, generator=second)
        right = {
            "recon_top1": judge.model(images).argmax(1) == test.labels,
            "recon_top1_victim": victim.model.head(again).argmax(1) == test.labels,
            "judge_top1": judge.model(test.images.float() / 255).argmax(1) == test.labels,
        }
    metrics = read_json(folder.attack("linear", "train_data").metrics)
    for name, found in right.items():
        assert metrics[name] == pytest.approx(found.float().mean().item())
    table = pd.read_parquet(folder.attack("linear", "train_data").per_image)
    assert table["recognised"].dtype == bool
    assert table["recognised"].tolist() == right["recon_top1"].tolist()


def test_who_sees_sixteen_releases_reconstructs_better(plan: Plan) -> None:
    once, often = (
        {
            defence: read_json(plan.layout.run(defence, 0).attack(attack, "train_data").metrics)
            for defence in ("none", "noise")
        }
        for attack in ("linear", "linear_16")
    )
    assert often["noise"]["queries"] == 16
    assert often["noise"]["mse"] < 0.9 * once["noise"]["mse"]
    assert often["none"]["mse"] == once["none"]["mse"]  # nothing to average out


def test_the_extremes_are_the_lowest_and_the_highest_errors(plan: Plan) -> None:
    place = plan.layout.run("noise", 0).attack("linear", "train_data")
    errors = pd.read_parquet(place.per_image)["mse"].to_numpy()
    order = np.argsort(errors, kind="stable")
    expected = blob_data().test.images[[*order[:5], *order[-5:]], 0].numpy()
    pixels = np.asarray(Image.open(place.extremes))
    factor = pixels.shape[0] // 32
    originals = pixels[::factor, ::factor][:16].reshape(16, 10, 16).swapaxes(0, 1)
    assert (originals == expected).all()


def test_few_images_are_shown_once() -> None:
    assert extremes(torch.tensor([0.3, 0.1, 0.2])) == [1, 0]
    assert extremes(torch.tensor([0.1])) == []
    many = extremes(torch.arange(30.0).flip(0))
    assert many == [29, 28, 27, 26, 25, 4, 3, 2, 1, 0]


@pytest.fixture
def copied(plan: Plan, tmp_path: Path) -> Plan:
    """A copy of the runs, to be attacked."""
    results = shutil.copytree(plan.layout.root.parent, tmp_path / "copy")
    return tiny_plan(Path(results), **TRAIN)


def test_an_attack_needs_the_judge(copied: Plan) -> None:
    copied.layout.judge.metrics.unlink()
    with pytest.raises(FileError, match=r"judge/metrics\.json: no such file"):
        list(run(attack_job(copied, "noise", 0, ["linear"])))


def test_a_judge_that_diverged_is_refused(copied: Plan) -> None:
    judge = copied.layout.judge.metrics
    write_sealed(judge, read_json(judge) | {"status": "failed", "reason": "too fast"})
    with pytest.raises(FileError, match=r"judge diverged \(too fast\)"):
        list(run(attack_job(copied, "noise", 0, ["linear"])))


SHORT = {"epochs": 2, "blocks": 1, "width": 8, "batch_size": 32}


def test_an_attack_starts_from_the_decoder_it_names(copied: Plan) -> None:
    attacks = {"mine": SHORT | {"kind": "decoder"}, "optimisation": {"start": "mine"}}
    attacks["optimisation"]["iterations"] = 1
    plan = replanned(copied, attacks)
    job = attack_job(plan, "noise", 0, ["optimisation"])
    with pytest.raises(FileError, match=r"no such file; run the job attack/noise/seed0/mine first"):
        list(rerun_job(job))
    list(run(attack_job(plan, "noise", 0, ["mine", "optimisation"])))
    found = {
        name: read_json(plan.layout.run("noise", 0).attack(name, "train_data").metrics)["mse"]
        for name in attacks
    }
    assert found["optimisation"] == pytest.approx(found["mine"], rel=0.05)  # one step away


def test_a_diverging_attack_and_what_starts_from_it_are_finished_and_failed(copied: Plan) -> None:
    plan = replanned(copied, {"decoder": SHORT | {"lr": 1e30}, "gan": {"epochs": 1}})
    paths = list(run(attack_job(plan, "noise", 0, ["decoder", "gan"])))
    reasons = ["_mse is"] * 2 + ["the attack it starts from failed: decoder: epoch"] * 2
    for path, reason in zip(paths, reasons, strict=True):
        metrics, place = read_json(path), AttackFolder(path.parent)
        assert (metrics["status"], metrics["n_images"]) == ("failed", 0)
        assert reason in metrics["reason"]
        scores = (*MEASURES, "psnr_of_mean_mse", "recon_top1")
        assert {metrics[name] for name in scores} == {None}
        assert all(file.is_file() for file in place.files())
        columns = ["index", "label", *MEASURES, "recognised"]
        assert list(pd.read_parquet(place.per_image).columns) == columns
        pixels = np.asarray(Image.open(place.reconstructions))
        assert (pixels[len(pixels) // 2 :] == 128).all()
