"""`cemlib show`: what a result says of itself, and whether its files are what was written."""

import json
import re
from typing import Any

import pytest
import yaml
from finished_study import RAW, Finished

from cemlib.cli import main
from cemlib.config import parse
from cemlib.config.differing import differing
from cemlib.records.files import read_json


def test_a_run_by_name_and_by_folder_is_the_same(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    by_name, _ = finished.says("show", "strong/seed1")
    assert main(["show", str(finished.run("strong/seed1")), "--config", "nowhere.yaml"]) == 0
    assert capsys.readouterr().out == by_name
    record = read_json(finished.run("strong/seed1") / "metrics.json")
    assert "status: ok\n" in by_name
    assert re.search(rf"^  top1 +{record['top1']:.6g}$", by_name, re.MULTILINE)
    assert record["provenance"]["commit"] in by_name
    assert f"torch: {record['provenance']['versions']['torch']}" in by_name
    assert "files\n  all as written\n" in by_name
    assert re.search(r"^  linear-train_data +finished +0\.\d", by_name, re.MULTILINE)


def test_a_folder_named_from_another_is_found(
    finished: Finished, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished.run("strong/seed0"))
    assert main(["show", "../seed1"]) == 0
    assert capsys.readouterr().out.startswith(f"{finished.run('strong/seed1').resolve()}\n")


@pytest.mark.parametrize("name", ["judge", "noise/seed0/mean_image-public_data"])
def test_judge_and_attacks_have_names_too(name: str, finished: Finished) -> None:
    folder, *_ = finished.says("show", name)[0].splitlines()
    assert folder.endswith(f"/{name.replace('seed0/', 'seed0/attacks/')}")


def test_a_bound_without_noise_is_infinite_not_missing(finished: Finished) -> None:
    assert re.search(r"^  leakage_nats +inf$", finished.says("show", "judge")[0], re.MULTILINE)


def test_only_what_differs_is_shown_and_can_be_pasted(finished: Finished) -> None:
    text, _ = finished.says("show", "strong/seed0")
    settings = text.partition("differ from the defaults\n")[2].partition("\n\n")[0]
    expected = {
        "data": {"image_size": 16, "train_limit": 200, "test_limit": 60},
        "train": {"epochs": 2, "batch_size": 32, "milestones": [1]},
        "defence": {"noise_std": 0.5},
    }
    assert yaml.safe_load(settings) == expected
    everything, _ = finished.says("show", "strong/seed0", "--all")
    assert "momentum: 0.9" in everything
    assert "momentum" not in settings


SETTINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"surrogate": "gated"}, {"surrogate": {"name": "gated"}}),
    (
        {"surrogate": {"name": "gmm", "lambda": 2.0, "clusters": 5}, "channel": "noise"},
        {"surrogate": {"name": "gmm", "lambda": 2.0}},
    ),
    (
        {"channel": {"name": "topk", "keep": 0.1}, "penalty": "nopeek", "pruning": {"epoch": 1}},
        {
            "channel": {"name": "topk", "keep": 0.1},
            "penalty": {"name": "nopeek"},
            "pruning": {"epoch": 1},
        },
    ),
]


@pytest.mark.parametrize(("settings", "expected"), SETTINGS)
def test_what_differs_makes_the_same_defence_again(
    settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    study = parse(RAW | {"defences": {"noise": settings}})
    found = differing(study.train_slice("noise"))
    assert found.get("defence", {}) == expected
    again = parse(RAW | {"defences": {"noise": expected}})
    assert again.train_slice("noise") == study.train_slice("noise")


def test_a_defences_own_network_and_training_differ_from_the_studys() -> None:
    """Also where they are the global defaults; `cemlib match` prints them to be pasted."""
    own = {"model": {"cut": 4}, "train": {"epochs": 240}}
    study = parse(RAW | {"model": {"name": "small", "cut": 3}, "defences": {"noise": own}})
    assert differing(study.defences["noise"].plain(), "defence") == own


def test_a_damaged_and_an_absent_file_are_named_after_everything_else(spoilt: Finished) -> None:
    run = spoilt.run("noise/seed0")
    (run / "model.safetensors").write_bytes(b"other weights")
    (run / "history.jsonl").unlink()
    out, told = spoilt.says("show", "noise/seed0", code=2)
    errors = told.splitlines()
    assert all(f"\n  {line.removeprefix('error: ')}" in out for line in errors)
    assert len(errors) == 2
    assert any("model.safetensors: damaged or changed" in line for line in errors)
    assert any("history.jsonl: no such file" in line for line in errors)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"top1": 1.0}, "metrics.json: damaged or changed"),
        (None, "metrics.json: no such file; run the job"),
    ],
)
def test_a_changed_score_and_an_unfinished_run_are_refused(
    change: Any, told: str, spoilt: Finished
) -> None:
    metrics = spoilt.run("noise/seed0") / "metrics.json"
    record = read_json(metrics)
    metrics.unlink()
    if change:
        metrics.write_text(json.dumps(record | change))
    assert told in spoilt.says("show", "noise/seed0", code=2)[1]


def test_a_damaged_attack_is_told_beside_the_others(spoilt: Finished) -> None:
    (spoilt.run("noise/seed0") / "attacks/linear-train_data/metrics.json").write_text("{}")
    text, _ = spoilt.says("show", "noise/seed0")
    assert re.search(r"^  linear-train_data +damaged( +-){4}$", text, re.MULTILINE)
    assert re.search(r"^  linear-public_data +finished +0", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("nois/seed0", ["did you mean 'noise/seed0'?"]),
        ("noise", ["nor the name of one in this study", "`cemlib list runs`"]),
        ("noise/seed0/liner-train_data", ["did you mean 'noise/seed0/linear-train_data'?"]),
        ("/nowhere", ["neither the folder of a run or an attack"]),
        ("", ["neither the folder of a run or an attack"]),
        ("data", ["neither the folder of a run or an attack"]),  # where the prepared images are
    ],
)
def test_a_wrong_name_is_one_line_with_the_possible_ones(
    name: str, parts: list[str], finished: Finished
) -> None:
    out, errors = finished.says("show", name, code=2)
    (line,) = errors.splitlines()
    assert out == ""
    assert all(part in line for part in parts)
