"""Searches by real trainings of digits: what decides, what they leave, how they continue."""

import math
import re
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
import torch
import yaml
from killing import kill, python, wait_for_line
from short_study import configure

from cemlib.cli import main
from cemlib.config import load, parse
from cemlib.config.sweeps import put
from cemlib.data.prepared import load as load_data
from cemlib.defences.deployed import load_deployed
from cemlib.numerics.seeds import generator
from cemlib.records.files import read_json, write_json
from cemlib.records.layout import RunFolder
from cemlib.search.bracket import BETWEEN, MATCHED, UNREACHED, Found
from cemlib.search.match import KEYS, Matched, Score, Wanted, match, remarks, strength_of
from cemlib.study.plan import Plan

STUDY: dict[str, Any] = {
    "experiment": "searched",
    "seeds": [0, 1],
    "data": {"source": "digits", "image_size": 16, "train_limit": 500, "val_fraction": 0.3},
    "model": {"name": "small", "cut": 3},
    "train": {"epochs": 3, "batch_size": 16, "milestones": [2]},
    "reference": "clustering",
    "defences": {"clustering": {"noise_std": 0.1, "surrogate": "clustering"}},
    "sweeps": {"noise": {"over": {"noise_std": [0.1, 1.0]}}},
    "attacks": {"linear": {}},
}
MATCH = ("match", "--defence", "clustering", "--accuracy", "60", "--within", "5")


def record(place: Path) -> dict[str, Any]:
    return read_json(place / "results/searched/search/match_clustering.json")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where a search has ended."""
    place = tmp_path_factory.mktemp("searches")
    assert main([*MATCH, *configure(place, STUDY)]) == 0
    return place


def test_validation_images_decide(place: Path) -> None:
    """The accuracy of a strength, computed once more from its run's weights."""
    root = place / "results/searched"
    val = load_data(root / "data").val
    for tried in record(place)["tried"]:
        for seed, accuracy in zip((0, 1), tried["accuracies"], strict=True):
            run = RunFolder(root / f"search/runs/clustering_lambda{tried['value']:g}/seed{seed}")
            deployed = load_deployed(run, torch.device("cpu"))
            score = deployed.score(val.images, val.labels, generator(seed, "val_noise"))
            assert accuracy == pytest.approx(100 * score["top1"])


def test_a_match_is_a_section_that_a_study_takes(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked once more it trains nothing, and says the same."""
    metrics = sorted((place / "results/searched/search/runs").glob("*/*/metrics.json"))
    times = [path.stat().st_mtime_ns for path in metrics]
    assert main([*MATCH, "--config", str(place / "study.yaml")]) == 0
    assert [path.stat().st_mtime_ns for path in metrics] == times
    told = capsys.readouterr()
    assert told.err == ""
    found = record(place)
    assert len(metrics) == 2 * len(found["tried"])
    *_, section, path = told.out.strip().split("\n\n")
    assert path == str(place / "results/searched/search/match_clustering.json")
    pasted = yaml.safe_load(section)
    (name,) = pasted["defences"]
    assert name == "clustering_at_60"
    _, config = configure(tmp_path, STUDY | pasted | {"reference": None})
    study = load(Path(config))
    assert found["end"] == "matched"
    assert study.defences[name].surrogate.lambda_ == found["value"]


@pytest.mark.slow
def test_a_killed_search_goes_on_to_the_same_end(place: Path, tmp_path: Path) -> None:
    config = configure(tmp_path, STUDY)
    process = python("-m", "cemlib", *MATCH, *config)
    wait_for_line(process, "[2/3] train/clustering_lambda16/seed0")
    kill(process)
    search = tmp_path / "results/searched/search"
    done = search / "runs/clustering_lambda16/seed0/metrics.json"
    before = done.stat().st_mtime_ns
    assert not (search / "match_clustering.json").exists()
    assert main([*MATCH, *config]) == 0
    assert done.stat().st_mtime_ns == before
    assert record(tmp_path)["tried"] == record(place)["tried"]


def test_a_diverged_run_makes_its_strength_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wild = {"surrogate": {"name": "logdet", "lambda": 1e30}}
    study = STUDY | {"seeds": [0], "reference": None, "defences": {"wild": wild}}
    words = ["--defence", "wild", "--accuracy", "50", "--within", "49"]
    assert main(["match", *words, *configure(tmp_path, study)]) == 3
    out = capsys.readouterr().out
    assert "  failed: epoch 2, " in out
    assert "matched at lambda " in out


def test_a_strength_at_which_a_seed_diverges_counts_as_0_percent_accurate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the other seed has the accuracy. Made-up scores replace the trainings alone."""

    def trained(plan: Plan[Any], *_: Any) -> Score:
        (defence,) = plan.study.defences.values()
        diverged = Score((85.0,), ("epoch 1: loss is nan",))
        return diverged if defence.surrogate.lambda_ >= 20 else Score((97.0, 97.0))

    monkeypatch.setattr("cemlib.search.match._trained", trained)
    plan = Plan(parse(STUDY | {"results": str(tmp_path)}))
    write_json(tmp_path / "searched/search/data/data.json", {"counts": {"val": 9}})
    wanted = Wanted("clustering", "lambda", 85.0, 0.3)
    found = match(plan, wanted, slots=1, say=print).found
    assert found.end == BETWEEN
    assert 20 / 1.02 < found.value < 20


def test_a_search_starts_from_what_a_defence_inherits(tmp_path: Path) -> None:
    study = STUDY | {"seeds": [0], "model": {"name": "small", "cut": 3, "bottleneck": 4}}
    words = ["--key", "bottleneck", "--accuracy", "50", "--within", "49"]
    assert main(["match", "--defence", "clustering", *words, *configure(tmp_path, study)]) == 0
    assert [tried["value"] for tried in record(tmp_path)["tried"]] == [4]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--defence", "clusterin"], "did you mean 'clustering'"),
        (["--defence", "noise"], "surrogate.lambda, which must be a number above 0, found None"),
        (["--defence", "clustering", "--key", "gate"], "found 'log'"),
        (["--defence", "clustering", "--key", "no"], "cannot be varied"),
        (["--defence", "clustering", "--key", "cut"], "cannot be varied"),
        (["--defence", "clustering", "--set", "train.select=best_test"], "best_test"),
        (
            ["--defence", "clustering", "--set", "defences.clustering.train={select: best_test}"],
            "best_test",
        ),
    ],
)
def test_faults_are_told_before_anything_is_trained(
    words: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["match", *words, "--accuracy", "60", *configure(tmp_path, STUDY)]) == 2
    assert fault in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_data_of_other_settings_are_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configure(tmp_path, STUDY)
    assert main(["prepare", *config]) == 0
    (facts,) = tmp_path.rglob("data.json")
    before = facts.read_bytes()
    other = [*config, "--set", "data.train_limit=150"]
    assert main(["match", "--defence", "clustering", "--accuracy", "60", *other]) == 2
    assert "prepared with other settings or code" in capsys.readouterr().err
    assert facts.read_bytes() == before


def test_the_page_names_the_strengths_of_which_a_larger_value_protects_less() -> None:
    page = (Path(__file__).parents[2] / "docs/matching.md").read_text()
    (names,) = re.findall(r"stronger, except for (.*?)\. Strengths", page, re.DOTALL)
    sections: dict[str, Any] = {key: {} for key in KEYS}
    for key, section in sections.items():
        put(section, key, 1)
    rising = {key for key, section in sections.items() if strength_of(section, key).rising}
    assert rising == set(re.findall(r"`(\w+)`", names))


def told(end: str, accuracies: tuple[float, ...], *failed: str) -> list[str]:
    score = {0.0: Score(accuracies, failed)}
    matched = Matched(Found(end, 0.0), score, 400, {}, Path("record"))
    return remarks(matched, Wanted("clustering", "lambda", 85.0, 0.3))


def test_how_a_search_ended_is_told() -> None:
    unreached, _ = told(UNREACHED, (84.0, 84.1, 84.2))
    assert unreached.endswith(
        "outside the range of lambda: even at lambda 0 the accuracy is 84.1 %"
    )
    (diverged,) = told(BETWEEN, (85.0, 85.0), "epoch 1: loss is nan")
    assert diverged.endswith("at the nearest, lambda 0, a run diverged")


def test_both_standard_errors_are_told() -> None:
    """Of a standard deviation of 1 over three seeds, and of 400 images that are right or wrong."""
    matched, noise = told(MATCHED, (84.0, 85.0, 86.0))
    assert matched.startswith("matched at lambda 0: the accuracy is 85.0 %")
    assert f"{1 / math.sqrt(3):.2f} points over 3 seeds" in noise
    normal = NormalDist.from_samples([100.0] * 340 + [0.0] * 60)
    assert f"{normal.stdev / 20:.2f} points by the choice of 400" in noise
    assert "unknown, over a single seed" in told(MATCHED, (85.0,))[1]
