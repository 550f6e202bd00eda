"""Searches by real trainings of digits: what they read, what they leave, how they go on."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from sklearn.linear_model import Ridge

from cemlib.cli import main
from cemlib.config import ConfigError, load
from cemlib.config.study import TrainConfig
from cemlib.data.prepared import load as load_data
from cemlib.data.prepared import save
from cemlib.defences.deployed import load_deployed
from cemlib.numerics.seeds import derive, generator
from cemlib.records.layout import RunFolder
from cemlib.records.seal import read_sealed
from cemlib.search.study import folder, prepare, search_plan, section_of, shortened
from cemlib.search.trials import scored
from cemlib.study.crew import Crew
from cemlib.study.plan import Plan

ROOT = Path(__file__).parents[2]
STUDY: dict[str, Any] = {
    "experiment": "searched",
    "seeds": [0, 1],
    "data": {"source": "digits", "image_size": 16, "train_limit": 500, "val_fraction": 0.3},
    "model": {"name": "small", "cut": 3},
    "train": {"epochs": 6, "batch_size": 16, "milestones": [4]},
    "defences": {"clustering": {"noise_std": 0.1, "surrogate": "clustering"}},
    "sweeps": {
        "noise": {"over": {"noise_std": [0.1, 1.0]}},
        "logdet": {"noise_std": 0.1, "surrogate": "logdet", "over": {"lambda": [0, 1e30]}},
    },
    "attacks": {"linear": {}},
}
MATCH = ("match", "--defence", "clustering", "--accuracy", "60", "--within", "5", "--epochs", "3")


def configure(place: Path, **changes: Any) -> Path:
    path = place / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY | {"results": str(place / "results")} | changes))
    return path


def searched(place: Path) -> Path:
    return place / "results/searched/search"


def record(place: Path, name: str) -> dict[str, Any]:
    return read_sealed(searched(place) / f"{name}.json", ("provenance", "wall_seconds"))


def tried(place: Path) -> list[tuple[float, ...]]:
    rows = record(place, "match_clustering")["tried"]
    return [(row["value"], *row["accuracies"], *row["errors"]) for row in rows]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where a search has ended."""
    place = tmp_path_factory.mktemp("searches")
    config = configure(place)
    assert main([*MATCH, "--config", str(config)]) == 0
    return place


def test_the_data_of_a_search_have_no_test_image(place: Path) -> None:
    """Whatever the study's test images are, the file that all runs read has the same bytes."""
    whole, laid = load_data(place / "results/searched/data"), load_data(searched(place) / "data")
    assert torch.equal(laid.test.images, whole.val.images)
    assert torch.equal(laid.test.labels, whole.val.labels)
    for run in (searched(place)).glob("*_epochs*/data"):
        assert run.resolve() == (searched(place) / "data").resolve()
    assert len(list(searched(place).glob("*_epochs*/data"))) == 1


def test_other_test_images_change_no_byte_that_a_search_reads(place: Path, tmp_path: Path) -> None:
    study = load(configure(tmp_path))
    plan = search_plan(study, "any", epochs=2, seeds=[0], sweeps=STUDY["sweeps"])
    prepare(study, plan)
    before = plan.layout.prepared.read_bytes()
    whole = load_data(Plan(study).layout.data)
    garbled = replace(whole.test, images=255 - whole.test.images, labels=whole.test.labels.flip(0))
    save(replace(whole, test=garbled), Plan(study).layout.data)
    prepare(study, plan)
    assert plan.layout.prepared.read_bytes() == before
    assert before == (searched(place) / "data/prepared.safetensors").read_bytes()


def test_a_run_is_scored_on_validation_images(place: Path) -> None:
    """Accuracy and ridge error, computed once more from the run's weights and the study's data."""
    data = load_data(place / "results/searched/data")
    run = next((searched(place) / "match_clustering_epochs3/runs").glob("*/seed1"))
    found = json.loads((run / "validation/metrics.json").read_text())
    victim = load_deployed(RunFolder(run), torch.device("cpu"))
    score = victim.score(data.val.images, data.val.labels, generator(1, "val_noise"))
    assert found["val_top1"] == score["top1"]
    own, asked = (victim.features(part.images) for part in (data.train, data.val))
    noise = generator(derive(1, "attack/linear/train_data"), "attack_noise")
    x = victim.channel(own, noise).flatten(1).double().numpy()
    released = victim.channel(asked, generator(1, "target/train_data")).flatten(1).double().numpy()
    y, true = (part.images.flatten(1).double().numpy() / 255 for part in (data.train, data.val))
    ridge = 1e-3 * x.var(0).mean() * len(x)
    answers = Ridge(alpha=ridge).fit(x, y).predict(released).clip(0, 1)
    assert found["val_mse"] == pytest.approx(float(np.square(answers - true).mean()), rel=1e-4)


def test_a_match_is_a_section_that_a_study_takes(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked once more it trains nothing, and says the same."""
    metrics = sorted(searched(place).glob("match_clustering_epochs3/runs/*/*/metrics.json"))
    times = [path.stat().st_mtime_ns for path in metrics]
    assert main([*MATCH, "--config", str(place / "study.yaml")]) == 0
    assert [path.stat().st_mtime_ns for path in metrics] == times
    told = capsys.readouterr()
    assert told.err == ""
    found = record(place, "match_clustering")
    assert len(metrics) == 2 * len(found["tried"])
    *_, section, path = told.out.strip().split("\n\n")
    assert path == str(searched(place) / "match_clustering.json")
    pasted = yaml.safe_load(section)
    (name,) = pasted["defences"]
    assert name == "clustering_at_60"
    study = load(configure(tmp_path, **pasted))
    assert found["end"] == "matched"
    surrogate = study.defences[name].surrogate
    assert surrogate is not None
    assert surrogate.lambda_ == found["value"]


def test_a_killed_search_goes_on_to_the_same_end(place: Path, tmp_path: Path) -> None:
    config = configure(tmp_path)
    command = [sys.executable, "-m", "cemlib", *MATCH, "--config", str(config)]
    process = subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    assert "[2/5] train/clustering_lambda16/seed0" in process.stderr.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = searched(tmp_path) / "match_clustering_epochs3/runs/clustering_lambda16/seed0"
    before = (done / "metrics.json").stat().st_mtime_ns
    assert not (searched(tmp_path) / "match_clustering.json").exists()
    assert main([*MATCH, "--config", str(config)]) == 0
    assert (done / "metrics.json").stat().st_mtime_ns == before
    assert tried(tmp_path) == tried(place)


def test_a_diverged_run_makes_its_setting_fail(tmp_path: Path) -> None:
    study = load(configure(tmp_path))
    sweep = STUDY["sweeps"]["logdet"] | {"over": {"lambda": [1e30]}}
    plan = search_plan(study, "any", epochs=2, seeds=[0], sweeps={"logdet": sweep})
    prepare(study, plan)
    with Crew(1, study.threads) as crew:
        score = scored(plan, crew, "cpu", lambda _: None)
    assert score.failed
    assert math.isnan(score.accuracy)


def test_a_training_that_selects_by_test_images_is_refused(tmp_path: Path) -> None:
    study = load(configure(tmp_path, train=STUDY["train"] | {"select": "best_test"}))
    with pytest.raises(ConfigError, match="best_test"):
        search_plan(study, "any", epochs=2, seeds=[0], sweeps={})


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["match", "--defence", "clusterin", "--accuracy", "60"], "did you mean 'clustering'"),
        (["match", "--defence", "noise", "--accuracy", "60"], "has no surrogate.lambda"),
        (["match", "--defence", "clustering", "--key", "gate", "--accuracy", "60"], "found 'log'"),
        (["match", "--defence", "clustering", "--key", "no", "--accuracy", "60"], "cannot be"),
    ],
)
def test_faults_are_told_before_anything_is_trained(
    words: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--config", str(configure(tmp_path))]) == 2
    assert fault in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_schedule_is_scaled_with_its_milestones_and_its_pruning(tmp_path: Path) -> None:
    full = TrainConfig()
    assert shortened(full, full.epochs) == full
    assert shortened(full, 3).milestones == (1, 1, 2, 2)
    pruned = {"pruned": {"surrogate": "clustering", "pruning": {"epoch": 2}}}
    study = load(configure(tmp_path, defences=STUDY["defences"] | pruned))
    section = section_of(study, "pruned") | {"over": {"lambda": [1]}}
    plan = search_plan(study, "any", epochs=2, seeds=[0], sweeps={"pruned": section})
    (defence,) = plan.study.defences.values()
    pruning = defence.pruning  # before epoch 2 of 6
    assert pruning is not None
    assert pruning.epoch == 1
    assert folder(study) == tmp_path / "results/searched/search"
