"""A study of a second: one defended run on a few digits, and a decoder that hardly learns."""

from pathlib import Path
from typing import Any

import yaml

SMALL = {"epochs": 1, "blocks": 1, "width": 8, "batch_size": 64}
REFINEMENT: dict[str, Any] = {"kind": "optimisation", "start": "decoder"}
STUDY: dict[str, Any] = {
    "experiment": "short",
    "seeds": [0],
    "data": {"source": "digits", "image_size": 16, "train_limit": 100, "test_limit": 40},
    "model": {"name": "small", "cut": 4},
    "train": {"epochs": 2, "batch_size": 32, "milestones": [1]},
    "defences": {"clustering": {"surrogate": "clustering"}},
    "attacks": {"decoder": SMALL, "linear": {}, "mean_image": {}},
}


def configure(folder: Path, study: dict[str, Any]) -> list[str]:
    """Write a study whose results go to the same folder; returns the option that names it."""
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study | {"results": str(folder / "results")}))
    return ["--config", str(path)]
