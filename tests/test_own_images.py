"""A user's own image folder, from the files to the table: any size, any classes, grey or colour."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from image_folders import write_class

from cemlib.cli import main


@pytest.mark.parametrize(
    ("classes", "each", "colour", "side", "model"),
    [
        (3, 6, False, 128, {"name": "small"}),
        (2, 9, True, 40, {"name": "resnet20", "cut": 8}),
        pytest.param(2, 15, True, 96, {"name": "vgg11"}, marks=pytest.mark.slow),
        pytest.param(1000, 3, True, 32, {"name": "small"}, marks=pytest.mark.slow),
    ],
)
def test_any_image_folder_goes_through_to_the_table(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    classes: int,
    each: int,
    colour: bool,
    side: int,
    model: dict[str, Any],
) -> None:
    """What the commands print are files that exist, each once, all records among them."""
    shape = (min(side, 48), min(side, 48) + 3, *([3] if colour else []))
    for label in range(classes):
        write_class(tmp_path / f"images/class_{label:04}", each, label, shape)
    study = {
        "experiment": "own",
        "results": str(tmp_path / "results"),
        "seeds": [0],
        "data": {
            "source": "folder",
            "root": str(tmp_path / "images"),
            "image_size": side,
            "test_fraction": 0.34,
            "min_per_class": 1,
        },
        "model": model,
        "train": {"epochs": 2, "milestones": [1]},
        "defences": {"both": {"surrogate": "clustering", "channel": "topk", "penalty": "nopeek"}},
        "attacks": {
            "decoder": {"epochs": 1, "blocks": 1, "width": 4, "batch_size": 16},
            "refinement": {"kind": "optimisation", "start": "decoder", "iterations": 1},
            "linear": {},
            "mean_image": {},
        },
    }
    config = tmp_path / "study.yaml"
    config.write_text(yaml.safe_dump(study, sort_keys=False))
    for command in ("prepare", "train", "attack", "report --only tables"):
        assert main([*command.split(), "--config", str(config)]) == 0, command
    printed = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert len(printed) == len(set(printed))
    assert all(path.is_file() for path in printed)
    metrics = {path for path in printed if path.name == "metrics.json"}
    assert metrics == set((tmp_path / "results/own").rglob("metrics.json"))
    summary = pd.read_csv(tmp_path / "results/own/tables/summary.csv")
    assert (summary["n_failed"] == 0).all()
    assert summary["mse_mean"].between(0, 0.5).all()
    per_image = "runs/both/seed0/attacks/linear-train_data/per_image.parquet"
    table = pd.read_parquet(tmp_path / "results/own" / per_image)
    assert set(table["label"]) == set(range(classes))
