"""What a user sees when something is wrong, and what is still there afterwards."""

import re
from typing import Any

import pytest
from checkout import Checkout, tiny

UNKNOWN = (
    {"seeds": [0, 1, 1], "train": {"epoch": 3}, "defences": {"mine": {"surrogate": "gatd"}}},
    (
        r"seeds: .*listed twice",
        r"train\.epoch: unknown key.*did you mean 'epochs'",
        r"defences\.mine\.surrogate: unknown name 'gatd'.*did you mean 'gated'",
    ),
)
IMPOSSIBLE = (
    {
        "model": {"name": "small", "cut": 99},
        "train": {"epochs": 1},
        "data": {"source": "folder", "root": "images", "image_size": 17},
    },
    (
        "model.cut: 99, but the last cut of small is 5; set it to at most 5",
        "data.image_size: 17, but small halves images 3 times; set it to a multiple of 8",
        "train.epochs: 1, but defences.clustering.surrogate acts from epoch 2 on; set it to 2 or",
        "data folder: images: no such folder; set data.root or CEMLIB_DATA to the images",
    ),
)


@pytest.mark.parametrize(("changes", "faults"), [UNKNOWN, IMPOSSIBLE])
def test_what_cannot_work_stops_before_any_job(
    fresh: Checkout, changes: dict[str, Any], faults: tuple[str, ...]
) -> None:
    """Every fault is a line, with the key as the study has it."""
    fresh.configure(tiny(**changes))
    outcome = fresh.snakemake()
    assert outcome.code != 0
    for fault in faults:
        assert len(re.findall(fault, outcome.output)) == 1, outcome.output
    assert "Traceback" not in outcome.output
    assert outcome.jobs == []
    assert not fresh.results.exists()


def test_changed_prepared_data_are_refused(finished: Checkout) -> None:
    prepared = finished.results / "data/prepared.safetensors"
    content = bytearray(prepared.read_bytes())
    content[-1] ^= 1
    prepared.write_bytes(content)
    outcome = finished.snakemake("results/tiny/runs/clustering/seed0/metrics.json", brief=True)
    log = finished.results / "logs/train/clustering/seed0.log"
    said = log.read_text()
    assert outcome.code != 0
    assert said.startswith(f"error: {prepared.relative_to(finished.root)}: damaged or changed")
    assert said.strip() in outcome.output.replace("\n    ", "\n")
    assert re.search(rf"^failed: train\S*: {log}$", outcome.output, re.MULTILINE)
    assert not (finished.results / "runs/clustering/seed0/metrics.json").exists()
    assert (finished.results / "runs/wild/seed0/metrics.json").exists()
